// UCB2-H on small problems for billions of episodes: each warp plays one run.
//
// Between two switches the policy stays. So 32 episodes are followed side by side, one by each
// lane: their paths, which of their visits are triggers, and the weights in what they teach. Then
// the estimates learn the episodes one after the other, a lane for each step. Episodes after a
// switch are followed again. The results are those of kernels/play.py to the bit: multiplications
// and additions must not be fused (-fmad=false). Problems have room for 8 steps, states and actions.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define GOLDEN 0x9E3779B97F4A7C15ULL
#define ALL 0xffffffffu
#define LOWEST (-(double)__int_as_float(0x7f800000))
#define ROWS 64
#define CELLS 512

struct Column { u64 threshold; u32 own, other; };
struct Cell { double q; i64 visits, place; };  // place: of the next trigger in the list
struct Clock { i64 episodes, mark, triggers, switches, sole; };  // sole: with one optimal action
struct Setting { double c, scale, caps[8]; i64 H, A, every_until, later; };
struct Arguments {
    const Column *columns;   // [problems, CELLS, 8]
    const double *rewards;   // [problems, CELLS / 8]
    const u8 *sole;          // [problems, ROWS]
    const Setting *settings;
    const i64 *later, *marks;
    const int *problems, *chosen;  // of each run; chosen: its setting
    const u64 *keys;
    Cell *cells;             // [runs, CELLS]
    u8 *actions;             // [runs, ROWS]
    Clock *clocks;
    i64 *curves;             // [runs, marks, 3]
    i64 last, marks_size;
};

__device__ __forceinline__ u64 mix(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}
__device__ __forceinline__ double larger(double a, double b) { return a > b ? a : b; }
__device__ __forceinline__ double smaller(double a, double b) { return a < b ? a : b; }

struct Table {  // what a run knows, in shared memory
    double q[ROWS], best_other[ROWS], value[ROWS + 8], reward[ROWS];
    i64 visits[ROWS], next[ROWS], place[ROWS];  // of deployed actions; next: their next trigger
    u64 thresholds[CELLS];
    u16 both[CELLS];
    double alpha[8][32], bonus[8][32];
    u32 due[8];
    u8 path[9][32], action[ROWS];
};

// Make a row's own what is known of an action, and the best estimate of the others.
__device__ void take(const Arguments &g, Table &t, const Setting &s, int problem, const Cell *cells,
                     int row, int action) {
    double other = LOWEST;
    for (int a = 0; a < s.A; a++)
        if (a != action) other = larger(other, cells[a].q);
    const Cell own = cells[action];
    t.q[row] = own.q, t.best_other[row] = other;
    t.value[row] = smaller(s.caps[row / 8], larger(own.q, other));
    t.visits[row] = own.visits, t.place[row] = own.place;
    t.next[row] = g.later[s.later + own.place];
    t.reward[row] = g.rewards[problem * ROWS + row % 8 * 8 + action];
    t.action[row] = (u8)action;
}

__device__ void put_back(const Table &t, Cell *cells, int row) {
    cells[t.action[row]] = Cell{t.q[row], t.visits[row], t.place[row]};
}

extern "C" __global__ void __launch_bounds__(32) play(const Arguments g) {
    __shared__ Table t;
    const int lane = threadIdx.x, run = blockIdx.x, problem = g.problems[run];
    const Setting s = g.settings[g.chosen[run]];
    const int H = (int)s.H, step = lane < H ? lane : H - 1;
    const u32 below = (1u << lane) - 1;
    const u64 key = g.keys[run];
    const i64 *later = g.later + s.later;
    Cell *cells = g.cells + (i64)run * CELLS;
    for (int i = lane; i < CELLS; i += 32) {
        const Column column = g.columns[(i64)problem * CELLS + i];
        t.thresholds[i] = column.threshold;
        t.both[i] = (u16)(column.own | column.other << 8);
    }
    for (int row = lane; row < ROWS; row += 32)
        take(g, t, s, problem, cells + row * 8, row, g.actions[run * ROWS + row]);
    __syncwarp();
    for (int row = H * 8 + lane; row < ROWS + 8; row += 32) t.value[row] = 0.0;
    __syncwarp();
    Clock clock = g.clocks[run];
    while (clock.episodes < g.last) {
        const i64 mark = clock.mark < g.marks_size ? g.marks[clock.mark] : g.last;
        const i64 left = (mark < g.last ? mark : g.last) - clock.episodes;
        const int size = left < 32 ? (int)left : 32;

        // ---- follow the policy -----------------------------------------------------------------
        const u64 z = key + (u64)(clock.episodes + lane) * (u64)(2 * H + 1) * GOLDEN + GOLDEN;
        u32 same[8], any_due = 0;
        int x = 0;
#pragma unroll
        for (int h = 0; h < 8; h++)
            if (h < H) {
                const int row = h * 8 + x;
                same[h] = __match_any_sync(ALL, lane < size ? x : 8);
                const i64 visits = t.visits[row] + __popc(same[h] & below) + 1;
                const double n = (double)visits, alpha = (H + 1) / (H + n);
                t.alpha[h][lane] = alpha;
                t.bonus[h][lane] = alpha * (s.c * sqrt(s.scale * (1.0 / n)));
                bool due = visits <= s.every_until;
                if (!due && visits >= t.next[row]) {
                    i64 place = t.place[row];
                    while (later[place] < visits) place++;
                    due = later[place] == visits;
                }
                const u32 dues = __ballot_sync(ALL, due && lane < size);
                if (lane == 0) t.due[h] = dues;
                any_due |= dues;
                t.path[h][lane] = (u8)row;
                const u64 bits = mix(z + (u64)(2 * h) * GOLDEN);
                const int slot = (x * 8 + t.action[row]) * 8 + (int)(bits >> 61);
                const u32 both = t.both[slot];
                x = (bits << 3) < t.thresholds[slot] ? both & 0xff : both >> 8;
            }
        t.path[H][lane] = (u8)(H * 8 + x);
        __syncwarp();

        // ---- learn one episode after the other -------------------------------------------------
        const u32 my_due = lane < H ? t.due[step] : 0;
        const double cap = s.caps[step];
        int kept = size, row = t.path[step][0], to = t.path[step + 1][0];
        double alpha = t.alpha[step][0], bonus = t.bonus[step][0];
        u32 beaten = 0;
        for (int e = 0; e < size; e++) {
            const double other = t.best_other[row];
            const double target = alpha * (t.reward[row] + t.value[to]);
            const double q = (1 - alpha) * t.q[row] + target + bonus;
            const double value = smaller(cap, larger(q, other));
            const int now = row, ahead = e + 1 < size ? e + 1 : e;
            row = t.path[step][ahead], to = t.path[step + 1][ahead];
            alpha = t.alpha[step][ahead], bonus = t.bonus[step][ahead];
            __syncwarp();
            if (lane < H) t.q[now] = q, t.value[now] = value;
            __syncwarp();
            if (any_due >> e & 1) {
                beaten = __ballot_sync(ALL, (my_due >> e & 1) && q < other);
                if (beaten) {
                    kept = e + 1;
                    break;
                }
            }
        }

        // ---- count the visits, and switch ------------------------------------------------------
        const u32 played = kept == 32 ? ALL : (1u << kept) - 1;
#pragma unroll
        for (int h = 0; h < 8; h++)
            if (h < H) {
                const u32 group = same[h] & played;
                if (lane < kept && group >> lane == 1) {  // the group's last episode
                    const int here = t.path[h][lane];
                    const i64 visits = t.visits[here] + __popc(group);
                    i64 place = t.place[here];
                    while (later[place] <= visits) place++;
                    t.visits[here] = visits, t.place[here] = place, t.next[here] = later[place];
                }
                clock.triggers += __popc(t.due[h] & played);
            }
        __syncwarp();
        if (beaten >> lane & 1) {
            const int here = t.path[lane][kept - 1];
            Cell *own = cells + here * 8;
            put_back(t, own, here);
            int best = 0;
            for (int a = 1; a < s.A; a++)
                if (own[a].q > own[best].q) best = a;
            take(g, t, s, problem, own, here, best);
        }
        const bool alone = (beaten >> lane & 1) && g.sole[problem * ROWS + t.path[step][kept - 1]];
        clock.switches += __popc(beaten);
        clock.sole += __popc(__ballot_sync(ALL, alone));
        clock.episodes += kept;
        if (clock.episodes == mark && clock.mark < g.marks_size) {
            i64 *curve = g.curves + ((i64)run * g.marks_size + clock.mark) * 3;
            if (lane == 0)
                curve[0] = clock.triggers, curve[1] = clock.switches, curve[2] = clock.sole;
            clock.mark++;
        }
        __syncwarp();
    }
    for (int row = lane; row < ROWS; row += 32) {
        put_back(t, cells + row * 8, row);
        g.actions[run * ROWS + row] = t.action[row];
    }
    if (lane == 0) g.clocks[run] = clock;
}
