// The document on its way in: compressed bytes become a checked object.

/** @param {BufferSource} packed zlib bytes @returns {Promise<string>} */
export async function inflate(packed) {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

/** @param {BufferSource} packed zlib bytes @returns {Promise<any>} */
export async function unpack(packed) {
  const doc = JSON.parse(await inflate(packed));
  if (doc.format !== 0) throw new Error(`this viewer reads format 0, and the file has format ${doc.format}`);
  return doc;
}

/** @param {string} text base64 @returns {Uint8Array<ArrayBuffer>} */
export function fromBase64(text) {
  const known = /** @type {any} */ (Uint8Array).fromBase64; // new browsers have it, and it is far quicker
  if (known) return known(text.trim());
  const binary = atob(text.trim());
  const out = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) out[i] = binary.charCodeAt(i);
  return out;
}
