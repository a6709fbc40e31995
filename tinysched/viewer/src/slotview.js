// One node of the SVG graph.

import { s } from "./dom.js";

/** One node's elements, made once per picture. */
export class SlotView {
  /** @param {[number, number, number, number, number[]]} box @param {number} slot */
  constructor([x, y, w, height], slot) {
    this.box = [x, y, w, height];
    this.body = s("rect", { class: "ts-body", x: -w / 2, y: -height / 2, width: w, height });
    this.floor = s("path", { class: "ts-floor", d: `M${-w / 2} ${height / 2}h${w}` });
    this.title = s("text", { class: "ts-title" });
    this.sub = s("text", { class: "ts-sub" });
    this.glyph = s("text", { class: "ts-glyph", x: w / 2 - 1, y: -height / 2 + 3 });
    this.tip = s("title");
    this.el = s("g", { transform: `translate(${x} ${y})`, "data-slot": slot, role: "img" }, this.tip, this.body, this.floor, this.title, this.sub, this.glyph);
    this.known = "";
  }

  hide() {
    this.el.setAttribute("class", "ts-hidden");
  }

  /**
   * @param {string} classes @param {import("./scene.js").Caption} caption @param {string} glyph @param {string} spoken
   * @param {import("./colours.js").Colour | null} colour
   */
  show(classes, caption, glyph, spoken, colour) {
    this.el.setAttribute("class", classes);
    const fill = colour ? `fill: color-mix(in srgb, var(--ts-${colour.name}) ${Math.round(colour.share * 100)}%, var(--ts-bg))` : "";
    if (fill !== (this.body.getAttribute("style") ?? "")) this.body.setAttribute("style", fill);
    const key = `${caption.title}\n${caption.sub}\n${glyph}\n${spoken}\n${classes.includes("ts-quiet")}`;
    if (key === this.known) return;
    this.known = key;
    const [, , w, height] = this.box;
    const quiet = classes.includes("ts-quiet");
    const pill = /ts-(alu|reduce|read|device)/.test(classes);
    this.body.setAttribute("rx", String(pill ? Math.min(height / 2, 18) : quiet ? 6 : 3));
    this.el.setAttribute("aria-label", spoken);
    this.tip.textContent = spoken;
    this.glyph.textContent = glyph;
    if (classes.includes("ts-openbox")) this.#atTheTop(caption);
    else if (quiet && caption.sub) this.#inOneLine(caption, w);
    else this.#inTwoLines(caption);
  }

  /** @param {import("./scene.js").Caption} caption @param {number} w */
  #inOneLine(caption, w) {
    this.title.setAttribute("text-anchor", "start");
    this.title.setAttribute("x", String(-w / 2 + 8));
    this.title.setAttribute("y", "4");
    this.title.textContent = caption.title;
    this.sub.setAttribute("text-anchor", "end");
    this.sub.setAttribute("x", String(w / 2 - 8));
    this.sub.setAttribute("y", "4");
    this.sub.textContent = caption.sub;
  }

  /** An open box: its ops stand below its name. @param {import("./scene.js").Caption} caption */
  #atTheTop(caption) {
    const [, , w, height] = this.box;
    for (const [el, anchor, x, text] of /** @type {[SVGElement, string, number, string][]} */ ([[this.title, "start", 14 - w / 2, caption.title], [this.sub, "end", w / 2 - 14, caption.sub]])) {
      el.setAttribute("text-anchor", anchor);
      el.setAttribute("x", String(x));
      el.setAttribute("y", String(20 - height / 2));
      el.textContent = text;
    }
  }

  /** @param {import("./scene.js").Caption} caption */
  #inTwoLines(caption) {
    for (const [el, y, text] of /** @type {[SVGElement, number, string][]} */ ([[this.title, caption.sub ? -2 : 4, caption.title], [this.sub, 12, caption.sub]])) {
      el.setAttribute("text-anchor", "middle");
      el.setAttribute("x", "0");
      el.setAttribute("y", String(y));
      el.textContent = text;
    }
  }
}
