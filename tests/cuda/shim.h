// What CUDA C needs to run on the CPU, one thread at a time, with every access looked at.
//
// The threads of a block are coroutines that change at barriers and shuffles. Every cell of memory knows who touched it:
// two threads that touch one, at least one of them writing, with no barrier between them, are a race, in whichever order
// they happened to run. Errors are C++ exceptions; launch() gives their text.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <ucontext.h>
#include <vector>

#define EXPORTED extern "C" __attribute__((visibility("default")))
#define __global__
#define __device__
#define __launch_bounds__(...)

struct Dim { unsigned x; };
static Dim threadIdx, blockIdx, blockDim, gridDim;
static std::string message;
static bool together;  // whether the threads of a block are coroutines

[[noreturn]] static void fail(const std::string& what) {
    throw std::runtime_error(what + " (block " + std::to_string(blockIdx.x) + ", thread " + std::to_string(threadIdx.x) + ")");
}

// ---- who touched what

struct Who {
    int block = -1, thread = -1, barriers = 0, shuffles = 0;
    bool unordered(const Who& o) const {  // with nothing between the two that makes one come first
        if (block < 0 || (block == o.block && thread == o.thread)) return false;
        if (block != o.block) return true;
        return barriers == o.barriers && (thread / 32 != o.thread / 32 || shuffles == o.shuffles);
    }
};
struct Mark { Who writer, reader, other_reader; };
static std::vector<Who> who;  // of each thread of the block
static Who& me() { return who[threadIdx.x]; }

static void touch_read(Mark& m, const char* name, long i) {
    if (m.writer.unordered(me())) fail("race: " + std::string(name) + "[" + std::to_string(i) + "] is read while another thread writes it");
    if (m.reader.block != me().block || m.reader.thread != me().thread) m.other_reader = m.reader;
    m.reader = me();
}
static void touch_write(Mark& m, const char* name, long i) {
    if (m.writer.unordered(me())) fail("race: " + std::string(name) + "[" + std::to_string(i) + "] is written by two threads");
    if (m.reader.unordered(me()) || m.other_reader.unordered(me()))
        fail("race: " + std::string(name) + "[" + std::to_string(i) + "] is written while another thread reads it");
    m.writer = me();
}

template <class T> struct Ref {
    T* at; Mark* mark; const char* name; long i;
    T get() const { touch_read(*mark, name, i); return *at; }
    operator T() const { return get(); }
    template <class U> explicit operator U() const { return U(get()); }
    const Ref& operator=(T x) const { touch_write(*mark, name, i); *at = x; return *this; }
    const Ref& operator=(const Ref& o) const { return *this = o.get(); }
    Ref(T* a, Mark* m, const char* n, long k) : at(a), mark(m), name(n), i(k) {}
    Ref(const Ref&) = default;
};

// ---- memory of the device

template <class T> struct Place;
template <class T> struct Global {
    using Value = std::remove_const_t<T>;
    Value* data; long size; std::vector<Mark>* marks; const char* name;
    Global(void* d, long n, std::vector<Mark>* m, const char* what) : data((Value*)d), size(n), marks(m), name(what) { m->resize(n); }
    void check(long i) const {
        if (i < 0 || i >= size) fail("out of bounds: " + std::string(name) + "[" + std::to_string(i) + "] of " + std::to_string(size));
    }
    auto operator[](long i) const {
        check(i);
        Ref<Value> ref(data + i, &(*marks)[i], name, i);
        if constexpr (std::is_const_v<T>) return ref.get(); else return ref;
    }
    Place<T> operator+(long i) const { return {*this, i}; }
};
template <class T> struct Place {
    Global<T> memory; long i;
    Place<T> operator+(long n) const { return {memory, i + n}; }
    Place<T> operator-(long n) const { return {memory, i - n}; }
    void check(long n) const {
        memory.check(i), memory.check(i + n - 1);
        if (uintptr_t(memory.data + i) % (n * sizeof(T))) fail("misaligned: " + std::to_string(n) + " elements at " + std::string(memory.name) + "[" + std::to_string(i) + "]");
    }
};

// ---- memory of a block

struct Cells { virtual void reset() = 0; };
static std::vector<Cells*> blocks_memory;
template <class T, int N> struct Shared1 : Cells {
    T data[N]; Mark marks[N]; const char* name;
    Shared1(const char* n) : name(n) { blocks_memory.push_back(this); }
    void reset() override { for (Mark& m : marks) m = Mark(); }
    Ref<T> operator[](long i) {
        if (i < 0 || i >= N) fail("out of bounds: " + std::string(name) + "[" + std::to_string(i) + "]");
        return {data + i, marks + i, name, i};
    }
};
template <class T, int N, int M> struct Shared2 : Cells {
    struct Row { Shared2* s; long i; Ref<T> operator[](long j) { return s->at(i, j); } };
    T data[N * M]; Mark marks[N * M]; const char* name;
    Shared2(const char* n) : name(n) { blocks_memory.push_back(this); }
    void reset() override { for (Mark& m : marks) m = Mark(); }
    Row operator[](long i) { return {this, i}; }
    Ref<T> at(long i, long j) {
        if (i < 0 || i >= N || j < 0 || j >= M) fail("out of bounds: " + std::string(name) + "[" + std::to_string(i) + "][" + std::to_string(j) + "]");
        return {data + i * M + j, marks + i * M + j, name, i * M + j};
    }
};

// ---- threads

enum State { READY, AT_BARRIER, AT_SHUFFLE, DONE };
static const size_t STACK = 128 << 10;
static std::vector<ucontext_t> contexts;
static std::vector<State> states;
static std::vector<char> stacks;
static ucontext_t scheduler;
static std::function<void()> body;
static uint64_t slots[2][1024];

static void wait_for(State state) {
    if (!together) fail("a barrier in a kernel that was started without one");
    unsigned t = threadIdx.x;
    states[t] = state;
    swapcontext(&contexts[t], &scheduler);
    threadIdx.x = t;
    if (!message.empty()) throw std::runtime_error(message);
}
static void __syncthreads() { wait_for(AT_BARRIER); }
template <class T> T __shfl_xor_sync(unsigned mask, T x, int step) {
    auto& slot = slots[me().shuffles % 2];
    if (mask != 0xffffffffu) fail("a shuffle of part of a warp");
    memcpy(&slot[threadIdx.x], &x, sizeof(T));
    wait_for(AT_SHUFFLE);
    memcpy(&x, &slot[threadIdx.x ^ step], sizeof(T));
    return x;
}

static void run_thread() {
    try { body(); } catch (const std::exception& e) { if (message.empty()) message = e.what(); }
    states[threadIdx.x] = DONE;
    swapcontext(&contexts[threadIdx.x], &scheduler);
}

static bool release(unsigned from, unsigned to, State at) {
    for (unsigned t = from; t < to; t++) if (states[t] != at) return false;
    for (unsigned t = from; t < to; t++) {
        states[t] = READY;
        (at == AT_BARRIER ? who[t].barriers : who[t].shuffles)++;
    }
    return true;
}

static void run_block(unsigned n) {
    for (Cells* c : blocks_memory) c->reset();
    who.assign(n, Who());
    for (unsigned t = 0; t < n; t++) who[t].block = blockIdx.x, who[t].thread = t;
    if (!together) {
        for (threadIdx.x = 0; threadIdx.x < n; threadIdx.x++) body();
        return;
    }
    contexts.resize(n), states.assign(n, READY), stacks.resize(n * STACK);
    for (unsigned t = 0; t < n; t++) {
        getcontext(&contexts[t]);
        contexts[t].uc_stack.ss_sp = &stacks[t * STACK], contexts[t].uc_stack.ss_size = STACK;
        makecontext(&contexts[t], run_thread, 0);
    }
    for (unsigned done = 0; done < n;) {
        done = 0;
        for (unsigned t = 0; t < n; t++) {
            if (states[t] == READY) threadIdx.x = t, swapcontext(&scheduler, &contexts[t]);
            if (!message.empty()) throw std::runtime_error(message);
            done += states[t] == DONE;
        }
        if (done == n) break;
        bool moved = release(0, n, AT_BARRIER);
        for (unsigned w = 0; w < n; w += 32) moved |= release(w, w + 32 < n ? w + 32 : n, AT_SHUFFLE);
        if (!moved) fail("a barrier or shuffle that not all threads reach");
    }
}

static const char* launch(std::function<void()> f, int blocks, int threads, bool coroutines) {
    message.clear(), body = f, together = coroutines;
    gridDim.x = blocks, blockDim.x = threads;
    try {
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) run_block(threads);
    } catch (const std::exception& e) { message = e.what(); }
    return message.c_str();
}

// ---- functions that NVRTC knows

static float __int_as_float(int x) { float y; memcpy(&y, &x, 4); return y; }
static float __uint_as_float(unsigned x) { float y; memcpy(&y, &x, 4); return y; }
static unsigned __float_as_uint(float x) { unsigned y; memcpy(&y, &x, 4); return y; }
static unsigned short half_bits(float x) { _Float16 h = (_Float16)x; unsigned short y; memcpy(&y, &h, 2); return y; }
static float half_value(unsigned short x) { _Float16 h; memcpy(&h, &x, 2); return (float)h; }
