// Binary formats: frames and recordings (as in horst.serving.frames), attention maps in.

const HEAD = 12;

/** A frame on the wire: uint32 number, float64 seconds (little-endian), then the encoded image. */
export function joinFrame(number, time, picture) {
  const bytes = new Uint8Array(HEAD + picture.byteLength);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, number, true);
  view.setFloat64(4, time, true);
  bytes.set(new Uint8Array(picture), HEAD);
  return bytes;
}

/** A recording: frames, each preceded by its length (uint32, little-endian). */
export function joinRecording(frames) {
  const length = (frame) => {
    const bytes = new ArrayBuffer(4);
    new DataView(bytes).setUint32(0, frame.byteLength, true);
    return bytes;
  };
  return new Blob(frames.flatMap((frame) => [length(frame), frame]));
}

/** Times in seconds and pictures of a recording. */
export function splitRecording(buffer) {
  const view = new DataView(buffer);
  const frames = [];
  for (let at = 0; at < buffer.byteLength; ) {
    const length = view.getUint32(at, true);
    at += 4;
    frames.push({ time: view.getFloat64(at + 4, true), picture: new Blob([buffer.slice(at + HEAD, at + length)], { type: "image/jpeg" }) });
    at += length;
  }
  return frames;
}

/** Attention of a prediction: weights, times in seconds (null: no frame yet), and maps with levels in 0..1. */
export function decodeAttention({ temporal, times, spatial, shape }) {
  const [count, height, width] = shape;
  const bytes = Uint8Array.from(atob(spatial), (letter) => letter.charCodeAt(0));
  const size = height * width;
  const known = times.map((time) => time !== null);
  let [low, high] = [255, 0];
  for (let i = 0; i < bytes.length; i++) {
    if (!known[Math.floor(i / size)]) continue;
    low = Math.min(low, bytes[i]);
    high = Math.max(high, bytes[i]);
  }
  // Do not stretch maps that hardly vary to all colours.
  const even = high - low < Math.max(2, 0.02 * high);
  const level = (byte) => (even ? 0 : Math.min(1, Math.max(0, (byte - low) / (high - low))));
  const maps = Array.from({ length: count }, (_, i) => ({
    height,
    width,
    levels: Float32Array.from(bytes.subarray(i * size, (i + 1) * size), level),
  }));
  return { temporal, times, maps, even };
}
