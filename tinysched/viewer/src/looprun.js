// Runs the loops of a kernel one statement at a time, with the arithmetic of its types: float32 is rounded after every
// operation, integers wrap around. What a browser's numbers cannot hold (64-bit integers beyond 2**53) is refused.

/**
 * @typedef {import("./loopcode.js").Program} Program @typedef {import("./loopcode.js").Expr} Expr @typedef {import("./loopcode.js").Statement} Statement
 * @typedef {{v: number, t: string}} Value a number (bool: 0 or 1) and its type; "int" is Python's own
 * @typedef {{line: number, kind: string, name: string, value?: number, reads: [string, number, number][], wrote?: [string, number, number]}} Event
 */

const BITS = /^(u?)int(8|16|32|64)$/;
const ONE = /** @type {Record<string, (x: number) => number>} */ ({ exp2: (x) => 2 ** x, log2: Math.log2, sin: Math.sin, sqrt: Math.sqrt, reciprocal: (x) => 1 / x, trunc: Math.trunc });
const TWO = /** @type {Record<string, (x: number, y: number) => number>} */ ({
  maximum: (x, y) => (Number.isNaN(x) || Number.isNaN(y) ? NaN : Math.max(x, y)), max: Math.max, power: (x, y) => x ** y, fmod: (x, y) => x % y,
  cdiv: (x, y) => (y ? Math.trunc(x / y) : 0),
});
const ARITHMETIC = /** @type {Record<string, (x: number, y: number) => number>} */ ({
  "+": (x, y) => x + y, "-": (x, y) => x - y, "*": (x, y) => x * y, "/": (x, y) => x / y, "//": (x, y) => Math.floor(x / y), "%": (x, y) => x - y * Math.floor(x / y),
  "<<": (x, y) => x * 2 ** y, ">>": (x, y) => Math.floor(x / 2 ** y),
});
const COMPARE = /** @type {Record<string, (x: number, y: number) => boolean>} */ ({
  "<": (x, y) => x < y, ">": (x, y) => x > y, "<=": (x, y) => x <= y, ">=": (x, y) => x >= y, "!=": (x, y) => x !== y, "==": (x, y) => x === y,
});
const BITWISE = /** @type {Record<string, (x: bigint, y: bigint) => bigint>} */ ({ "&": (x, y) => x & y, "|": (x, y) => x | y, "^": (x, y) => x ^ y });

/** A number as its type holds it. @param {number} v @param {string} t */
export function held(v, t) {
  if (t === "float32") return Math.fround(v);
  if (t === "float64") return v;
  if (t === "float16" && "f16round" in Math) return /** @type {any} */ (Math).f16round(v);
  if (t === "bool" || t === "bool_") return v ? 1 : 0;
  const int = BITS.exec(t);
  if (!int && t !== "int") throw new Error(`${t} is not computed here`);
  if (int && Number(int[2]) < 64 && Number.isFinite(v)) return Number((int[1] ? BigInt.asUintN : BigInt.asIntN)(Number(int[2]), BigInt(Math.trunc(v))));
  if (!Number.isSafeInteger(Math.trunc(v))) throw new Error("integers this large are not computed here");
  return Math.trunc(v);
}

/** Stops before each statement's effect is lost: yields what it did. @param {Program} program @param {Record<string, {data: number[], t: string}>} memory @param {Record<string, number>} variables @returns {Generator<Event, void>} */
export function* run(program, memory, variables) {
  const env = /** @type {Record<string, Value>} */ (Object.fromEntries(Object.entries(variables).map(([k, v]) => [k, { v, t: "int" }])));
  yield* block(program.body, new Machine(memory, env));
}

class Machine {
  /** @param {Record<string, {data: number[], t: string}>} memory @param {Record<string, Value>} env */
  constructor(memory, env) {
    this.memory = memory;
    this.env = env;
    this.reads = /** @type {[string, number, number][]} */ ([]);
  }

  /** @param {Expr} e @returns {Value} */
  value(e) {
    switch (e.kind) {
      case "number": return { v: e.value, t: e.int ? "int" : "float64" };
      case "name": return this.#name(e.name);
      case "element": return this.#read(e.of, this.value(e.at).v);
      case "choose": return this.value(e.test).v ? this.value(e.yes) : this.value(e.no);
      case "unary": return this.#unary(e.op, this.value(e.x));
      case "binary": return this.#binary(e.op, e.x, e.y);
      case "method": return this.#method(e.name, this.value(e.of), e.type);
      default: return this.#call(e.name, e.args.map((a) => this.value(a)));
    }
  }

  /** @param {string} name @returns {Value} */
  #name(name) {
    if (name === "True" || name === "False") return { v: name === "True" ? 1 : 0, t: "bool" };
    if (name === "inf" || name === "nan") return { v: name === "inf" ? Infinity : NaN, t: "float64" };
    if (!(name in this.env)) throw new Error(`${name} is not known`);
    return this.env[name];
  }

  /** @param {string} of @param {number} at @returns {Value} */
  #read(of, at) {
    const { data, t } = this.memory[of];
    if (!(at >= 0 && at < data.length)) throw new Error(`${of}[${at}] is outside of its ${data.length} elements`);
    this.reads.push([of, at, data[at]]);
    return { v: data[at], t };
  }

  /** @param {string} op @param {Value} x @returns {Value} */
  #unary(op, x) {
    return op === "not" ? { v: x.v ? 0 : 1, t: "bool" } : { v: held(-x.v, x.t), t: x.t };
  }

  /** @param {string} op @param {Expr} left @param {Expr} right @returns {Value} */
  #binary(op, left, right) {
    const x = this.value(left);
    if (op === "and" || op === "or") return Boolean(x.v) === (op === "or") ? x : this.value(right);
    const y = this.value(right);
    if (op in COMPARE) return { v: COMPARE[op](x.v, y.v) ? 1 : 0, t: "bool" };
    const t = x.t === "int" ? y.t : x.t;
    if (op in BITWISE) return { v: held(Number(BITWISE[op](BigInt(x.v), BigInt(y.v))), t), t };
    const exact = ARITHMETIC[op](x.v, y.v);
    if (op === "*" && BITS.test(t) && !Number.isSafeInteger(exact)) return { v: held(Number(BigInt.asIntN(53, BigInt(x.v) * BigInt(y.v))), t), t };
    const kind = op === "/" && (t === "int" || BITS.test(t)) ? "float64" : t;
    return { v: held(exact, kind), t: kind };
  }

  /** @param {string} name @param {Value} x @param {string} type @returns {Value} */
  #method(name, x, type) {
    if (name === "astype") return { v: held(x.v, type), t: type };
    const view = new DataView(new ArrayBuffer(8));
    const [as, from] = [ACCESS[type], ACCESS[x.t]];
    if (name !== "view" || !as || !from) throw new Error(`.${name}(${type}) is not computed here`);
    /** @type {any} */ (view)[`set${from}`](0, x.v, true);
    return { v: /** @type {any} */ (view)[`get${as}`](0, true), t: type };
  }

  /** @param {string} name @param {Value[]} args @returns {Value} */
  #call(name, args) {
    const [x, y] = args;
    if (name in ONE) return { v: held(ONE[name](x.v), x.t), t: x.t };
    if (name in TWO) return { v: held(TWO[name](x.v, y.v), x.t === "int" ? y.t : x.t), t: x.t === "int" ? y.t : x.t };
    if (name === "int") return { v: held(x.v, "int"), t: "int" };
    if (name === "within") {
      if (!(x.v >= 0 && x.v < y.v)) throw new Error(`index ${x.v} is outside of the ${y.v} elements`);
      return x;
    }
    return { v: held(x.v, name), t: name === "bool_" ? "bool" : name };
  }
}

const ACCESS = /** @type {Record<string, string>} */ ({ float32: "Float32", float64: "Float64", int32: "Int32", uint32: "Uint32", int16: "Int16", uint16: "Uint16", int8: "Int8", uint8: "Uint8" });

/** @param {Statement[]} body @param {Machine} machine @returns {Generator<Event, void>} */
function* block(body, machine) {
  for (const s of body) {
    machine.reads = [];
    if (s.kind === "for") yield* loop(s, 0, machine);
    else if (s.kind === "if") {
      const { v } = machine.value(s.test);
      yield { line: s.line, kind: "if", name: "", value: v, reads: machine.reads };
      if (v) yield* block(s.body, machine);
    } else if (s.kind === "let") {
      const value = (machine.env[s.name] = machine.value(s.value));
      yield { line: s.line, kind: "let", name: s.name, value: value.v, reads: machine.reads };
    } else {
      const [at, value] = [machine.value(s.at).v, machine.value(s.value)];
      const { data, t } = machine.memory[s.of];
      data[at] = held(value.v, t);
      yield { line: s.line, kind: "store", name: s.of, value: data[at], reads: machine.reads, wrote: [s.of, at, data[at]] };
    }
  }
}

/** @param {Extract<Statement, {kind: "for"}>} s @param {number} n which of its loops @param {Machine} machine @returns {Generator<Event, void>} */
function* loop(s, n, machine) {
  const end = machine.value(s.ends[n]).v;
  for (let i = 0; i < end; i++) {
    machine.env[s.names[n]] = { v: i, t: "int" };
    if (n + 1 < s.names.length) yield* loop(s, n + 1, machine);
    else {
      yield { line: s.line, kind: "for", name: s.names[n], value: i, reads: [] };
      yield* block(s.body, machine);
    }
  }
}
