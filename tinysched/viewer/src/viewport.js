// Panning and zooming: by dragging, by buttons, by the wheel once the explorer has the focus (a page still scrolls past it).

export const SMALLEST = 0.06;
export const LARGEST = 2.5;
const READABLE = 0.75; // a picture is not fitted smaller than this where that would make its text illegible
const FOOT = 52; // the controls stand there

export class Viewport {
  /**
   * @param {HTMLElement} el what is dragged @param {() => void} redraw
   * @param {() => [number, number]} size of the picture
   */
  constructor(el, redraw, size) {
    this.el = el;
    this.redraw = redraw;
    this.size = size;
    this.x = this.y = 0;
    this.k = 1;
    this.moved = false;
    this.touched = false; // by the person: from then on it is theirs
    this.room = /** @type {[number, number] | null} */ (null); // as measured last: asking again in the middle of a step costs a layout
    new ResizeObserver(() => (this.room = null)).observe(el);
    el.addEventListener("pointerdown", (e) => this.#down(e));
    el.addEventListener("wheel", (e) => this.#wheel(e), { passive: false });
  }

  /** @param {PointerEvent} e */
  #down(e) {
    if (e.button !== 0) return;
    let [x, y] = [e.clientX, e.clientY];
    const start = [x, y];
    this.moved = false;
    const move = (/** @type {PointerEvent} */ m) => {
      if (!this.moved && Math.hypot(m.clientX - start[0], m.clientY - start[1]) < 4) return;
      this.moved = true;
      const scale = this.#scale();
      this.x += (m.clientX - x) / scale;
      this.y += (m.clientY - y) / scale;
      [x, y] = [m.clientX, m.clientY];
      this.touched = true;
      this.#limit();
      this.redraw();
    };
    const up = () => {
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", up);
      window.removeEventListener("pointercancel", up);
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", up);
    window.addEventListener("pointercancel", up);
  }

  /** @returns {[number, number]} */
  #room() {
    this.room ??= /** @type {[number, number]} */ ([this.el.clientWidth, this.el.clientHeight]);
    return this.room;
  }

  /** How much larger than usual all is drawn, for a projector. */
  #scale() {
    return this.el.getBoundingClientRect().width / this.el.clientWidth || 1;
  }

  /** @param {WheelEvent} e */
  #wheel(e) {
    const root = this.el.closest(".ts");
    if (!e.ctrlKey && !root?.contains(document.activeElement)) return;
    e.preventDefault();
    e.stopPropagation();
    this.touched = true;
    if (e.ctrlKey || e.metaKey) {
      const box = this.el.getBoundingClientRect();
      this.zoom(Math.exp(-e.deltaY * 0.004), (e.clientX - box.left) / this.#scale(), (e.clientY - box.top) / this.#scale());
      return;
    }
    this.x -= e.deltaX;
    this.y -= e.deltaY;
    this.#limit();
    this.redraw();
  }

  /** @param {number} by @param {number} [x] @param {number} [y] */
  zoom(by, x = this.el.clientWidth / 2, y = this.el.clientHeight / 2) {
    this.touched ||= by !== 1;
    const k = Math.max(SMALLEST, Math.min(LARGEST, this.k * by));
    this.x = x - ((x - this.x) * k) / this.k;
    this.y = y - ((y - this.y) * k) / this.k;
    this.k = k;
    this.#limit();
    this.redraw();
  }

  /** Some of the picture always stays in sight. */
  #limit() {
    const [w, h] = this.size();
    const [W, H] = this.#room();
    const edge = 60;
    this.x = Math.max(edge - w * this.k, Math.min(W - edge, this.x));
    this.y = Math.max(edge - h * this.k, Math.min(H - edge, this.y));
  }

  /** Shows all of it, or as much as stays readable, from the top. @param {boolean} [all] however small */
  fit(all = false) {
    this.touched = false;
    const [w, h] = this.size();
    this.room = /** @type {[number, number]} */ ([this.el.clientWidth || 1, this.el.clientHeight || 1]);
    const [W, H] = [this.room[0], Math.max(this.room[1] - FOOT, 1)];
    const pad = 20;
    const whole = Math.min((W - 2 * pad) / Math.max(w, 1), (H - 2 * pad) / Math.max(h, 1));
    this.k = Math.max(SMALLEST, Math.min(1.15, all ? whole : Math.max(whole, READABLE)));
    this.x = (W - w * this.k) / 2;
    this.y = h * this.k + 2 * pad <= H ? (H - h * this.k) / 2 : pad;
    this.redraw();
  }

  /** Pans only if the box is out of sight. @param {number} x @param {number} y @param {number} w @param {number} h */
  reveal(x, y, w, h) {
    const [W, H] = this.#room();
    const [left, top] = [(x - w / 2) * this.k + this.x, (y - h / 2) * this.k + this.y];
    const [right, bottom] = [left + w * this.k, top + h * this.k];
    if (left >= 8 && top >= 8 && right <= W - 8 && bottom <= H - FOOT) return;
    if (left < 8 || right > W - 8) this.x = W / 2 - x * this.k;
    if (top < 8 || bottom > H - FOOT) this.y = H / 2 - y * this.k;
    this.redraw();
  }
}
