// Reads the Python loops of a kernel: the few statements and operators that runtime/loops.py prints. Text in, tree out;
// nothing is ever handed to the browser as code.

/**
 * @typedef {{kind: "number", value: number, int: boolean} | {kind: "name", name: string} | {kind: "call", name: string, args: Expr[]}
 *   | {kind: "method", name: string, of: Expr, type: string} | {kind: "element", of: string, at: Expr} | {kind: "unary", op: string, x: Expr}
 *   | {kind: "binary", op: string, x: Expr, y: Expr} | {kind: "choose", test: Expr, yes: Expr, no: Expr}} Expr
 * @typedef {{kind: "for", line: number, names: string[], ends: Expr[], body: Statement[]} | {kind: "if", line: number, test: Expr, body: Statement[]}
 *   | {kind: "let", line: number, name: string, value: Expr} | {kind: "store", line: number, of: string, at: Expr, value: Expr}} Statement
 * @typedef {{name: string, params: string[], body: Statement[]}} Program
 */

const LEVELS = [["or"], ["and"], ["<", ">", "<=", ">=", "!=", "=="], ["|"], ["^"], ["&"], ["<<", ">>"], ["+", "-"], ["*", "/", "//", "%"]];
const NOT_LEVEL = 2; // "not" binds less than comparisons, more than "and"
const TOKEN = /\s*(\d+\.?\d*(?:e[+-]?\d+)?|[A-Za-z_]\w*|\/\/|<<|>>|<=|>=|!=|==|[-+*/%<>|^&()[\],.:=])/y;

/** @param {string} text @returns {Program} */
export function parse(text) {
  const lines = text.split("\n").map((line, n) => ({ n, depth: line.search(/\S/), text: line.trim() })).filter((l) => l.text);
  const head = /^def (\w+)\((.*)\):$/.exec(lines[0]?.text ?? "");
  if (!head) throw new Error("no program");
  let at = 1;
  /** @param {number} depth @returns {Statement[]} */
  const block = (depth) => {
    const found = [];
    while (at < lines.length && lines[at].depth >= depth) found.push(statement(lines[at], () => (at++, block(depth + 4)), () => at++));
    return found;
  };
  return { name: head[1], params: head[2].split(",").map((p) => p.trim()).filter(Boolean), body: block(4) };
}

/** @param {{n: number, text: string}} line @param {() => Statement[]} body @param {() => void} next @returns {Statement} */
function statement({ n, text }, body, next) {
  const t = new Tokens(text);
  if (t.take("for")) {
    const names = [t.any()];
    while (t.take(",")) names.push(t.any());
    t.need("in");
    const loops = expression(t);
    const ends = loops.kind === "call" && loops.name === "product" ? loops.args : [loops];
    return { kind: "for", line: n, names, ends: ends.map((e) => /** @type {any} */ (e).args[0]), body: body() };
  }
  if (t.take("if")) return { kind: "if", line: n, test: expression(t), body: body() };
  const name = t.any();
  const at = t.take("[") ? expression(t) : null;
  if (at) t.need("]");
  t.need("=");
  const value = expression(t);
  t.end();
  next();
  return at ? { kind: "store", line: n, of: name, at, value } : { kind: "let", line: n, name, value };
}

class Tokens {
  /** @param {string} text */
  constructor(text) {
    this.all = /** @type {string[]} */ ([]);
    TOKEN.lastIndex = 0;
    while (TOKEN.lastIndex < text.trimEnd().length) {
      const found = TOKEN.exec(text);
      if (!found) throw new Error(`not understood: ${text}`);
      this.all.push(found[1]);
    }
    this.at = 0;
  }

  get now() {
    return this.all[this.at];
  }

  any() {
    return this.all[this.at++];
  }

  /** @param {string} token */
  take(token) {
    return this.now === token && Boolean(++this.at);
  }

  /** @param {string} token */
  need(token) {
    if (!this.take(token)) throw new Error(`${token} was expected before ${this.now}`);
  }

  end() {
    if (this.now !== undefined) throw new Error(`not understood: ${this.now}`);
  }
}

/** @param {Tokens} t @returns {Expr} */
function expression(t) {
  const yes = level(t, 0);
  if (!t.take("if")) return yes;
  const test = level(t, 0);
  t.need("else");
  return { kind: "choose", test, yes, no: expression(t) };
}

/** Operators of one strength, grouped to the left. @param {Tokens} t @param {number} n @returns {Expr} */
function level(t, n) {
  if (n === NOT_LEVEL && t.take("not")) return { kind: "unary", op: "not", x: level(t, n) };
  if (n === LEVELS.length) return t.take("-") ? { kind: "unary", op: "-", x: level(t, n) } : postfix(t);
  let x = level(t, n + 1);
  while (LEVELS[n].includes(t.now)) x = { kind: "binary", op: t.any(), x, y: level(t, n + 1) };
  return x;
}

/** @param {Tokens} t @returns {Expr} */
function postfix(t) {
  let x = atom(t);
  while (t.take(".")) {
    const name = t.any();
    t.need("(");
    x = { kind: "method", name, of: x, type: t.any() };
    t.need(")");
  }
  return x;
}

/** @param {Tokens} t @returns {Expr} */
function atom(t) {
  if (t.take("(")) {
    const x = expression(t);
    t.need(")");
    return x;
  }
  const token = t.any();
  if (/^\d/.test(token)) return { kind: "number", value: Number(token), int: /^\d+$/.test(token) };
  if (t.take("[")) {
    const at = expression(t);
    t.need("]");
    return { kind: "element", of: token, at };
  }
  if (!t.take("(")) return { kind: "name", name: token };
  const args = [];
  while (!t.take(")")) {
    args.push(expression(t));
    t.take(",");
  }
  return { kind: "call", name: token, args };
}
