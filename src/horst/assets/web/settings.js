// Settings, kept in the browser's local storage if possible.

const NAME = "horst-settings";
// `confidence`: the minimum; null until the user chooses one
const DEFAULTS = { reset: "auto", confidence: null, heat: true, keys: true };

function stored() {
  try {
    return JSON.parse(localStorage.getItem(NAME)) ?? {};
  } catch {
    return {}; // not available in private windows, or damaged
  }
}

export const settings = new Proxy({ ...DEFAULTS, ...stored() }, {
  set(values, name, value) {
    values[name] = value;
    try {
      localStorage.setItem(NAME, JSON.stringify(values));
    } catch {
      // lost with the page then
    }
    return true;
  },
});
