// A GPU that is this CPU: the text of kernel.cu compiled by a C++ compiler, behind the functions of
// NVIDIA's driver that the library calls. Threads run one after the other. The constants that a GPU
// compiles in are variables here, so that one compilation serves every problem.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>

// ---- what a GPU gives ---------------------------------------------------------------------------

#define __device__
#define __forceinline__ inline
#define __global__
#define __align__(size) alignas(size)
#define LAUNCH_BOUNDS(threads)
#define SHARED_MEMORY(name) unsigned char *name = shared_memory
#define FIRST_THREAD 0  // threads run one after the other, so each of them fills all of a table
#define THREAD_STEP 1
#define LOWEST (-INFINITY)

struct alignas(16) int4 { int x, y, z, w; };
struct { unsigned x; } threadIdx, blockIdx;
alignas(16) static unsigned char shared_memory[1 << 20];
template <class T> T __ldcg(const T *place) { return *place; }
template <class T> T __ldg(const T *place) { return *place; }
template <class T> void __stcg(T *place, T value) { *place = value; }
inline void __syncthreads() {}
inline void __syncwarp(unsigned = 0) {}
inline unsigned __ballot_sync(unsigned, bool holds) { return holds; }
template <class T> T __shfl_sync(unsigned, T value, int) { return value; }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(unsigned bits) { return __builtin_ffs(bits); }
inline double divide(double a, double b) { return a / b; }
inline double root(double a) { return sqrt(a); }

// ---- constants ----------------------------------------------------------------------------------

#define CONSTANTS(X) \
    X(H) X(S) X(A) X(STRIDE) X(REWARD_STRIDE) X(BERNOULLI) X(DENSE) X(BERNSTEIN) X(WATCHED) \
    X(GROWING) X(LAWS) X(LOG_COLUMNS) X(START_LOG) X(PADDED) X(COLUMNS) X(REWARDS) X(START) \
    X(IN_REGISTERS) X(WIDE) X(GROUP) X(OUTFLOW_SHARED) X(SETTLE_THREADS) X(LOGGED) X(ROOM) \
    X(ROWS_SHARED) X(ACTIONS_SHARED) X(TABLES_SHARED) X(RUNS) X(LANES) X(THREADS) X(SETTLE_SPLIT) \
    X(HELPERS) X(BLOCK) X(ROW) X(NEAR) X(BATCH)
#define DECLARE(name) static int name;
CONSTANTS(DECLARE)
#define CHUNK 3
#define MOST_WIDE 34
#define MOST_NEAR 16
#define MOST_BATCH 4
#define TEAM 1  // lanes of a team would have to run side by side

#include KERNEL_TEXT

// ---- the driver ---------------------------------------------------------------------------------

struct Image { std::map<std::string, int> constants; };
struct Function { Image *image; void (*kernel)(const Arguments); };

// What a test may change: the GPU's memory and driver, how many GPUs there are, and after how many
// launches it is lost; below 0: never.
static long long settings[] = {1LL << 30, 12040, 1, -1, 4, 1 << 16};
enum { MEMORY, DRIVER, DEVICES, LOST_AFTER, MULTIPROCESSORS, SHARED };
static std::map<uint64_t, size_t> allocated;
static size_t used = 0;
static long long launches = 0;

extern "C" {
void twin_set(int which, long long value) { settings[which] = value, launches = 0; }
long long twin_used() { return (long long)used; }
long long twin_launches() { return launches; }

int cuInit(unsigned) { return settings[DEVICES] < 0 ? 100 : 0; }
int cuDeviceGetCount(int *count) { return *count = (int)settings[DEVICES], 0; }
int cuDeviceGet(int *device, int which) { return *device = which, 0; }
int cuDevicePrimaryCtxRetain(void **context, int) { return *context = &settings, 0; }
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(void *) { return 0; }
int cuDriverGetVersion(int *version) { return *version = (int)settings[DRIVER], 0; }
int cuDeviceGetName(char *name, int size, int) { return snprintf(name, size, "twin"), 0; }
int cuDeviceGetAttribute(int *value, int which, int) {
    *value = which == 16 ? (int)settings[MULTIPROCESSORS] : which == 97 ? (int)settings[SHARED] : 9;
    return 0;
}
int cuMemGetInfo_v2(size_t *free, size_t *total) {
    if (settings[MEMORY] == 0) return 201;  // what an H200 answers where others hold everything
    return *total = settings[MEMORY], *free = *total - used, 0;
}
int cuMemAlloc_v2(uint64_t *address, size_t size) {
    if (used + size > (size_t)settings[MEMORY]) return 2;
    void *memory = aligned_alloc(64, (size + 63) / 64 * 64);
    memset(memory, 0xA5, size);  // nobody may rely on what was there before
    *address = (uint64_t)memory, allocated[*address] = size, used += size;
    return 0;
}
int cuMemFree_v2(uint64_t address) {
    used -= allocated[address], allocated.erase(address), ::free((void *)address);
    return 0;
}
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) {
    return memcpy((void *)to, from, size), 0;
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
    return memcpy(to, (const void *)from, size), 0;
}
int cuModuleLoadData(void **module, const void *text) {  // NAME=NUMBER in each line
    Image *image = new Image;
    std::istringstream lines((const char *)text);
    for (std::string line; std::getline(lines, line);) {
        const size_t equals = line.find('=');
        if (equals == std::string::npos) return delete image, 200;
        image->constants[line.substr(0, equals)] = atoi(line.c_str() + equals + 1);
    }
    return *module = image, 0;
}
int cuModuleUnload(void *module) { return delete (Image *)module, 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    const std::map<std::string, void (*)(const Arguments)> kernels = {
        {"begin", begin}, {"play", play}, {"evaluate", evaluate}, {"settle", settle},
        {"count_triggers", count_triggers}};
    const auto found = kernels.find(name);
    if (found == kernels.end()) return 500;
    return *function = new Function{(Image *)module, found->second}, 0;
}
int cuFuncSetAttribute(void *, int, int value) {
    return value > settings[SHARED] || value > (int)sizeof shared_memory ? 1 : 0;
}
int cuLaunchKernel(void *function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned,
                   unsigned, unsigned, void *, void **parameters, void **) {
    if (settings[LOST_AFTER] >= 0 && launches >= settings[LOST_AFTER]) return 719;
    launches++;
    const Function *it = (const Function *)function;
#define ASSIGN(name) name = it->image->constants.at(#name);
    CONSTANTS(ASSIGN)
    GROUP = 1;  // a group of threads would have to run side by side
    if (it->kernel == evaluate || it->kernel == settle) {
        blocks = blocks / SETTLE_SPLIT * RUNS * HELPERS;
        threads = SETTLE_THREADS = 1;
        SETTLE_SPLIT = RUNS * HELPERS;
    }
    memset(shared_memory, 0xA5, sizeof shared_memory);
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)
            it->kernel(*(const Arguments *)parameters[0]);
    return 0;
}
int cuCtxSynchronize() { return 0; }
int cuGetErrorName(int status, const char **name) {
    return *name = status == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR", 0;
}
}
