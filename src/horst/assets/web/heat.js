// Attention maps as colours (plasma), interpolated smoothly, as in the project's figures.

const COLOURS = ["0d0887", "5402a3", "8b0aa5", "b93289", "db5c68", "f48849", "febc2b", "f0f921"].map((hex) =>
  [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)),
);
const FINE = 8; // upsampling factor; the browser scales the rest

function colour(level) {
  const place = level * (COLOURS.length - 1);
  const at = Math.min(COLOURS.length - 2, Math.floor(place));
  return COLOURS[at].map((value, channel) => value + (COLOURS[at + 1][channel] - value) * (place - at));
}

const TABLE = Array.from({ length: 256 }, (_, i) => colour(i / 255));

/** The two neighbours of a fine cell in the coarse map, and the smooth weight of the second. */
function between(place, length) {
  const at = Math.min(length - 1, Math.max(0, (place + 0.5) / FINE - 0.5));
  const low = Math.min(Math.floor(at), Math.max(0, length - 2));
  const part = at - low;
  return [low, Math.min(length - 1, low + 1), part * part * (3 - 2 * part)];
}

/** Paint a map on a canvas of its size times `FINE`; `strength(level)` is the opacity. */
export function paint(canvas, { height, width, levels }, strength) {
  const [tall, wide] = [height * FINE, width * FINE];
  if (canvas.width !== wide || canvas.height !== tall) [canvas.width, canvas.height] = [wide, tall];
  const context = canvas.getContext("2d");
  const image = context.createImageData(wide, tall);
  for (let y = 0; y < tall; y++) {
    const [top, bottom, down] = between(y, height);
    for (let x = 0; x < wide; x++) {
      const [left, right, across] = between(x, width);
      const over = levels[top * width + left] * (1 - across) + levels[top * width + right] * across;
      const under = levels[bottom * width + left] * (1 - across) + levels[bottom * width + right] * across;
      const level = over * (1 - down) + under * down;
      const [red, green, blue] = TABLE[Math.round(255 * level)];
      image.data.set([red, green, blue, 255 * strength(level)], 4 * (y * wide + x));
    }
  }
  context.putImageData(image, 0, 0);
}
