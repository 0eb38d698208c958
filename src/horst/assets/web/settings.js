// What was chosen last, kept by the browser where it keeps anything.

const NAME = "horst-settings";
const DEFAULTS = { restarts: "auto", threshold: 0.2, heat: true, keys: true };

function stored() {
  try {
    return JSON.parse(localStorage.getItem(NAME)) ?? {};
  } catch {
    return {}; // private windows refuse, and old contents may be broken
  }
}

export const settings = new Proxy({ ...DEFAULTS, ...stored() }, {
  set(values, name, value) {
    values[name] = value;
    try {
      localStorage.setItem(NAME, JSON.stringify(values));
    } catch {
      // it is forgotten with the page then
    }
    return true;
  },
});
