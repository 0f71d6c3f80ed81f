// A warp on this CPU: 32 lanes take turns, each up to the next place where all of them meet.

#include <ucontext.h>

#include <cmath>
#include <cstring>

#define __device__ static
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __int_as_float(bits) INFINITY
using std::sqrt;

static struct { int x; } threadIdx, blockIdx;
static ucontext_t lanes[32], scheduler;
static unsigned given[2][32];  // what each lane brought to this meeting, and to the last one
static int meetings[32];

static const unsigned *meet(unsigned value) {
    const int lane = threadIdx.x, side = meetings[lane]++ % 2;
    given[side][lane] = value;
    swapcontext(&lanes[lane], &scheduler);
    return given[side];
}
static void __syncwarp() { meet(0); }
static unsigned __ballot_sync(unsigned, bool holds) {
    const unsigned *all = meet(holds);
    unsigned bits = 0;
    for (int lane = 0; lane < 32; lane++) bits |= all[lane] << lane;
    return bits;
}
static unsigned __match_any_sync(unsigned, unsigned value) {
    const unsigned *all = meet(value);
    unsigned bits = 0;
    for (int lane = 0; lane < 32; lane++) bits |= (unsigned)(all[lane] == value) << lane;
    return bits;
}
static int __popc(unsigned bits) { return __builtin_popcount(bits); }

#include TEXT

static const Arguments *given_arguments;
static int ended;
static void play_lane() {
    play(*given_arguments);
    ended++;
}

extern "C" void launch(int runs, const Arguments *arguments) {
    static char stacks[32][1 << 16];
    given_arguments = arguments;
    for (blockIdx.x = 0; blockIdx.x < runs; blockIdx.x++) {
        ended = 0;
        for (int lane = 0; lane < 32; lane++) {
            getcontext(&lanes[lane]);
            lanes[lane].uc_stack.ss_sp = stacks[lane];
            lanes[lane].uc_stack.ss_size = sizeof stacks[lane];
            lanes[lane].uc_link = &scheduler;
            makecontext(&lanes[lane], play_lane, 0);
        }
        while (!ended)
            for (threadIdx.x = 0; threadIdx.x < 32; threadIdx.x++)
                swapcontext(&scheduler, &lanes[threadIdx.x]);
    }
}
