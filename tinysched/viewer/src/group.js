// Views of one trace on one page move together. They find one another by events on the window: each widget may have a copy
// of this module of its own, and with no kernel there is nobody else to ask.

const EVENT = "tinysched-place";

export class Follower {
  /** @param {string} group '' follows nobody @param {(place: any) => void} follow */
  constructor(group, follow) {
    this.group = group;
    this.last = "";
    this.heard = (/** @type {any} */ event) => {
      const { group: theirs, from, text } = event.detail;
      if (!group || theirs !== group || from === this || text === this.last) return;
      this.last = text;
      follow(JSON.parse(text));
    };
    window.addEventListener(EVENT, this.heard);
  }

  /** @param {any} place */
  tell(place) {
    const text = JSON.stringify(place);
    if (!this.group || text === this.last) return;
    this.last = text;
    window.dispatchEvent(new CustomEvent(EVENT, { detail: { group: this.group, from: this, text } }));
  }

  end() {
    window.removeEventListener(EVENT, this.heard);
  }
}
