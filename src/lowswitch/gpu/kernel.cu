// Q-learning on a GPU, one run a thread, equal to the CPU kernels to the bit.
//
// This is the text of kernels/noise.py, qlearning.py, deploy.py, play.py and values.py, with their
// names and in their order. It is compiled for one problem size: H, S, A and every other name in
// capitals that is not defined here is a constant that plan.py gives. A multiplication and an
// addition must not be fused into one rounding (-fmad=false), or the last bits would differ.
//
// What makes it fast, beyond the CPU kernels:
// - A row keeps all that a step needs of it: what is known of the deployed action, and the best
//   estimate of the others. The cells of other actions are touched only at a switch. The value of a
//   row is min(cap, max(q, best_other)) and is not stored.
// - Nothing that is learned in an episode changes what it plays, and no row is visited twice in it.
//   So the path of several steps is played first, then all of them are learned side by side, and
//   then rows that are due are switched. The transitions that are learned do not wait for each
//   other: each reads the value of the next row as it was before the episode.
// - Where rows fill the shared memory before runs fill the lanes of the warps, TEAM lanes have a
//   run: all of them follow its path, and each learns some of the steps.
// - Row changes are logged. Other kernels evaluate the deployed policies afterwards, HELPERS
//   threads for a run (evaluate), and charge their regret (settle).

#ifdef __CUDACC__
#define LAUNCH_BOUNDS(threads) __launch_bounds__(threads, 1)
#define SHARED_MEMORY(name) extern __shared__ __align__(16) unsigned char name[]
#define FIRST_THREAD threadIdx.x
#define THREAD_STEP blockDim.x
#define LOWEST (-(double)__int_as_float(0x7f800000))

// Division and square root by the compiler's own operations but without its branches for special
// cases: the same bits for the numbers that occur here, which are neither tiny nor huge.
__device__ __forceinline__ double divide(double a, double b) {
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(b));
    double e = __fma_rn(-b, r, 1.0);
    e = __fma_rn(e, e, e);
    r = __fma_rn(r, e, r);
    e = __fma_rn(-b, r, 1.0);
    r = __fma_rn(r, e, r);
    const double q = a * r;
    return __fma_rn(__fma_rn(-b, q, a), r, q);
}
__device__ __forceinline__ double root(double a) {
    double r;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(a));
    const double e = __fma_rn(a, -(r * r), 1.0);
    r = __fma_rn(__fma_rn(e, 0.375, 0.5), e * r, r);
    const double s = a * r;
    return __fma_rn(__fma_rn(-s, s, a), 0.5 * r, s);
}
#endif  // elsewhere tests/twin.cpp defines what a GPU gives, and runs this text on the CPU

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define FIXED 0  // start: one state, drawn from a law, or a sequence of states
#define DRAWN 1
#define SEQUENCE 2
#define NEVER 0x7fffffff
#define GOLDEN 0x9E3779B97F4A7C15ULL
#define AHEAD 8  // logged row changes that are fetched together
#define MINE ((CHUNK + TEAM - 1) / TEAM)  // steps of a chunk that one lane of a team learns

struct __align__(16) Column { u64 threshold; u32 own, other; };  // the threshold is twice the CPU's
struct __align__(16) Cell { double q; int visits; u32 place; };  // place: in the list of triggers;
                                                                 // GROWING: the next trigger itself
struct __align__(16) Pair { double first, second; };
struct Row { double q, best_other; int visits; u32 place; double total, squares, width; };
struct Change { u32 episode, cell; };  // cell: (h * S + x) * A + action
struct Clock { i64 deployments, switches, refreshes, drowned; int batch, mark, frozen, unused; };
struct Balance { double regret, gap; int charged, passed; };
struct Spec {
    double c1, c2, variance_scale, lower_order, hoeffding_scale, factor;
    i64 deployments, switches;
    int every_until, later, later_size, grid, least, remaining;
};
struct Arguments {
    // problems: those of one launch lie one after the other
    const Column *columns, *start_columns;
    const i64 *heads, *first_columns, *offsets, *first_nonzeros;
    const int *successors, *starts;
    const double *probabilities, *rewards, *outflow, *start_laws, *optimal, *best, *first_gaps;
    const u8 *allowed;
    // runs: which problem each block has, and which setting and noise each run
    const int *problems, *settings, *grid, *later, *marks;
    const Spec *specs;
    const u64 *keys;
    // what they know and did, [row][run] but for `blocks`, where the runs of a block lie together
    Pair *blocks;  // first all rows, where they are not in shared memory, then cells with moments
    u8 *actions, *evaluated;
    int *next, *logged;
    Clock *clocks;
    Balance *balances;
    Change *changes;
    i64 *curve_switches, *curve_deployments, *triggers;
    double *curve_regret, *masses, *gaps;
    u64 runs;
    int last, log_size, marks_size, start, start_size, unused;
};

__device__ __forceinline__ double larger(double a, double b) { return a > b ? a : b; }
__device__ __forceinline__ double smaller(double a, double b) { return a < b ? a : b; }
template <class T> __device__ __forceinline__ T fetch(const void *place) {
    const int4 raw = __ldcg((const int4 *)place);
    return *(const T *)&raw;
}
template <class T> __device__ __forceinline__ void put(void *place, T value) {
    __stcg((int4 *)place, *(const int4 *)&value);
}

// ---- noise.py -----------------------------------------------------------------------------------

__device__ __forceinline__ u64 mix(u64 z) {  // noise(key, address) is mix(key + address * GOLDEN)
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

__device__ __forceinline__ double uniform(u64 bits) { return (double)(i64)(bits >> 11) * 0x1p-53; }

// The tables of the block's problem. In shared memory: thresholds, rewards, own | other << 16.
struct Model {
    const Column *columns;
    const i64 *heads;
    const double *rewards;
    const u64 *thresholds;
    const u32 *both;

    // A successor from the alias table of a row. Rows are padded to one width, with the same draws,
    // so that no head has to be read first; where that would take too much memory, they are not.
    __device__ __forceinline__ int draw(int row, u64 bits) const {
        const int log = PADDED ? LOG_COLUMNS : (int)(heads[row] & 63);
        const i64 first = PADDED ? (i64)row << LOG_COLUMNS : heads[row] >> 6;
        const i64 place = first + (i64)((bits >> 1) >> (63 - log));
        if (TABLES_SHARED) {
            const u32 pair = both[place];
            return (bits << log) < thresholds[place] ? pair & 0xffff : pair >> 16;
        }
        const int4 raw = __ldg((const int4 *)(columns + place));
        const Column column = *(const Column *)&raw;
        return (bits << log) < column.threshold ? column.own : column.other;
    }
    __device__ __forceinline__ double reward(int cell) const {
        return TABLES_SHARED ? rewards[cell] : __ldg(rewards + cell);
    }
};

__device__ __forceinline__ int draw_start(const Column *columns, u64 bits) {
    const Column column = columns[(bits >> 1) >> (63 - START_LOG)];
    return (bits << START_LOG) < column.threshold ? column.own : column.other;
}

// ---- qlearning.py -------------------------------------------------------------------------------

__device__ __forceinline__ double learning_rate(double n) { return divide(H + 1, H + n); }

__device__ __forceinline__ double hoeffding_width(const Spec &spec, double share) {
    return spec.c2 * root(spec.hoeffding_scale * share);
}

__device__ __forceinline__ double variance(double total, double squares, double share) {
    const double mean = total * share;
    return larger(0.0, squares * share - mean * mean);
}

__device__ __forceinline__ double bernstein_width(const Spec &spec, double share, double variance) {
    const double inner = spec.variance_scale * share * (variance + H);
    const double spread = root(inner) + spec.lower_order * share;
    return smaller(spec.c1 * spread, hoeffding_width(spec, share));
}

__device__ __forceinline__ double weighted_bonus(const Spec &spec, Row &row, double n, double alpha,
                                                 double next_value) {
    const double share = divide(1.0, n);
    if (!BERNSTEIN) return alpha * hoeffding_width(spec, share);
    row.total += next_value;
    row.squares += next_value * next_value;
    const double width = bernstein_width(spec, share, variance(row.total, row.squares, share));
    const double bonus = 0.5 * (width - (1 - alpha) * row.width);
    row.width = width;
    return bonus;
}

// Learn one transition; return whether it is a trigger.
__device__ __forceinline__ bool digest_visit(const Spec &spec, const int *later, Row &row,
                                             double reward, double next_value, int &drowned) {
    const int visits = row.visits + 1;
    const double n = visits, alpha = learning_rate(n);
    const double bonus = weighted_bonus(spec, row, n, alpha, next_value);
    drowned += bonus > alpha * H;
    row.q = (1 - alpha) * row.q + alpha * (reward + next_value) + bonus;
    row.visits = visits;
    if (GROWING) {
        const bool due = visits == (int)row.place;
        if (due) row.place = NEVER;
        return due;
    }
    const bool early = visits <= spec.every_until;
    const bool due = !early && visits == __ldg(later + row.place);
    row.place += due;
    return early || due;
}

// ---- what a run knows ---------------------------------------------------------------------------

// Rows lie in shared memory as [row][run of the block], or in global memory as [row][run].
struct Tables {
    const Arguments &g;
    u64 run;     // among all
    int thread;  // among the runs of the block
    int lane, member;  // of the warp, and of the team
    double *reals;
    int *visits;
    u32 *places;
    u8 *deployed;
    u32 playing;  // the lanes of the warp that play, as bits

    __device__ __forceinline__ double &real(int which, int row) const {
        return reals[(which * H * S + row) * RUNS + thread];
    }
    // The runs of a block lie together, and so stay within few pages of memory; rows come first.
    __device__ __forceinline__ u64 block() const {
        return run / RUNS * ((u64)H * S * RUNS * BLOCK);
    }
    __device__ __forceinline__ u64 place(int row) const { return (u64)row * RUNS + run % RUNS; }
    __device__ __forceinline__ Pair *row_at(int row) const {
        return g.blocks + block() + place(row) * ROW;
    }
    __device__ __forceinline__ Cell *cells_at(int row) const {
        const u64 rows = (u64)H * S * RUNS * ROW;
        return (Cell *)(g.blocks + block() + rows + place(row) * (BLOCK - ROW));
    }
    __device__ __forceinline__ Pair *moments_at(int row) const {
        return (Pair *)(cells_at(row) + A);
    }
    __device__ __forceinline__ u8 &action(int row) const {
        return ACTIONS_SHARED ? deployed[row * RUNS + thread] : g.actions[(u64)row * g.runs + run];
    }
    __device__ __forceinline__ double best(int row) const {
        if (ROWS_SHARED) return larger(real(0, row), real(1, row));
        return larger(fetch<Cell>(row_at(row)).q, fetch<Pair>(row_at(row) + 1).first);
    }
    __device__ __forceinline__ void meet() const {  // lanes of a team see what each other wrote
        if (TEAM > 1) __syncwarp(playing);
    }
    // Of TEAM numbers from the given place on, that of this lane.
    __device__ __forceinline__ int mine(const int *numbers, int first, int size) const {
        int chosen = numbers[first];
#pragma unroll
        for (int t = 1; t < TEAM; t++)
            if (first + t < size) chosen = t == member ? numbers[first + t] : chosen;
        return chosen;
    }
    // Whether something holds for each lane of the team, as bits.
    __device__ __forceinline__ u32 vote(bool holds) const {
        if (TEAM == 1) return holds;
        return __ballot_sync(playing, holds) >> (lane - member) & ((1u << TEAM) - 1);
    }
    __device__ __forceinline__ void load(int row, Row &it) const {
        if (ROWS_SHARED) {
            it.q = real(0, row), it.best_other = real(1, row);
            if (BERNSTEIN) it.total = real(2, row), it.squares = real(3, row);
            if (BERNSTEIN) it.width = real(4, row);
            it.visits = visits[row * RUNS + thread], it.place = places[row * RUNS + thread];
        } else {
            const Pair *place = row_at(row);
            const Cell own = fetch<Cell>(place);
            const Pair more = fetch<Pair>(place + 1);
            it.q = own.q, it.visits = own.visits, it.place = own.place;
            it.best_other = more.first, it.width = more.second;
            if (BERNSTEIN) {
                const Pair sums = fetch<Pair>(place + 2);
                it.total = sums.first, it.squares = sums.second;
            }
        }
    }
    __device__ __forceinline__ void store(int row, const Row &it, bool all) const {
        if (ROWS_SHARED) {
            real(0, row) = it.q;
            if (all) real(1, row) = it.best_other;
            if (BERNSTEIN) real(2, row) = it.total, real(3, row) = it.squares;
            if (BERNSTEIN) real(4, row) = it.width;
            visits[row * RUNS + thread] = it.visits, places[row * RUNS + thread] = it.place;
        } else {
            Pair *place = row_at(row);
            put(place, Cell{it.q, it.visits, it.place});
            if (all || BERNSTEIN) put(place + 1, Pair{it.best_other, it.width});
            if (BERNSTEIN) put(place + 2, Pair{it.total, it.squares});
        }
    }
    __device__ __forceinline__ void store_cell(int row, int action, const Row &it) const {
        put(cells_at(row) + action, Cell{it.q, it.visits, it.place});
        if (BERNSTEIN) {
            put(moments_at(row) + action * 2, Pair{it.total, it.squares});
            put(moments_at(row) + action * 2 + 1, Pair{it.width, 0.0});
        }
    }
    __device__ __forceinline__ void load_cell(int row, int action, Row &it) const {
        const Cell cell = fetch<Cell>(cells_at(row) + action);
        it.q = cell.q, it.visits = cell.visits, it.place = cell.place;
        if (BERNSTEIN) {
            const Pair sums = fetch<Pair>(moments_at(row) + action * 2);
            it.total = sums.first, it.squares = sums.second;
            it.width = fetch<Pair>(moments_at(row) + action * 2 + 1).first;
        }
    }
    __device__ __forceinline__ double best_of_others(int row, int action) const {
        double best = LOWEST;
        for (int a = 0; a < A; a++)
            if (a != action) best = larger(best, cells_at(row)[a].q);
        return best;
    }
    // Make the best action the row's own, the lowest index among equals; return it. near: the cells
    // of the row, where they are few enough to be fetched before.
    __device__ __forceinline__ int take_best(int row, const Cell *near) const {
        Row it;
        load(row, it);
        const int own = action(row);
        double best = LOWEST, second = LOWEST;
        int chosen = 0;
        Cell cell = near[0];
        if (A <= NEAR) {
#pragma unroll
            for (int a = 0; a < NEAR; a++)
                if (a < A) {
                    const double q = a == own ? it.q : near[a].q;
                    second = larger(second, smaller(q, best));
                    if (q > best) chosen = a, cell = near[a];
                    best = larger(best, q);
                }
        } else {
#pragma unroll 5
            for (int a = 0; a < A; a++) {
                const double stored = cells_at(row)[a].q, q = a == own ? it.q : stored;
                second = larger(second, smaller(q, best));
                chosen = q > best ? a : chosen;
                best = larger(best, q);
            }
        }
        store_cell(row, own, it);
        if (A <= NEAR && !BERNSTEIN) it.q = cell.q, it.visits = cell.visits, it.place = cell.place;
        else load_cell(row, chosen, it);
        it.best_other = second;
        store(row, it, true);
        action(row) = (u8)chosen;
        return chosen;
    }
    __device__ __forceinline__ void fetch_cells(int row, Cell *near) const {
#pragma unroll
        for (int a = 0; a < NEAR; a++)
            if (A <= NEAR && a < A) near[a] = fetch<Cell>(cells_at(row) + a);
    }
};

// ---- deploy.py and schedule.py ------------------------------------------------------------------

struct Log {
    Change *changes;
    u64 runs;
    int logged;
};

// Switch a row after episode k, as change number `place` of the log; the caller counts it.
__device__ __forceinline__ void switch_row(const Tables &tables, const Log &log, int place, int k,
                                           int row, const Cell *near) {
    const int action = tables.take_best(row, near);
    if (LOGGED) log.changes[(u64)place * log.runs] = Change{(u32)k, (u32)(row * A + action)};
}

__device__ __forceinline__ void freeze_if_spent(const Spec &spec, Clock &clock) {
    if (clock.switches >= spec.switches || clock.deployments >= spec.deployments) clock.frozen = 1;
}

__device__ __forceinline__ u32 next_growth(const Spec &spec, int n) {
    const i64 grown = (i64)ceil(spec.factor * n), least = (i64)n + spec.least;
    return (u32)(grown > least ? grown : least);
}

__device__ void switch_all(const Spec &spec, const Tables &tables, Clock &clock, Log &log, int k) {
    clock.refreshes++;
#pragma unroll 1
    for (int row = 0; row < H * S; row++) {
        Row it;
        tables.load(row, it);
        if (it.q < it.best_other && clock.switches < spec.switches) {
            Cell near[MOST_NEAR];
            tables.fetch_cells(row, near);
            switch_row(tables, log, log.logged, k, row, near);
            log.logged++, clock.switches++;
            tables.load(row, it);
        }
        if (spec.factor > 0) {
            for (int a = 0; a < A; a++) {
                Cell *cell = tables.cells_at(row) + a;
                cell->place = next_growth(spec, cell->visits);
            }
            it.place = next_growth(spec, it.visits);
            tables.store(row, it, false);
        }
    }
}

// What schedule and budget say after episode k, in which `changed` rows changed already.
__device__ __forceinline__ void end_episode(const Arguments &g, const Spec &spec,
                                            const Tables &tables, Clock &clock, Log &log, int k,
                                            bool changed, bool triggered) {
    const bool on_grid = !clock.frozen && g.grid[spec.grid + clock.batch] == k + 1;
    clock.batch += on_grid;
    const i64 before = clock.switches;
    if (on_grid || (triggered && spec.factor > 0)) switch_all(spec, tables, clock, log, k);
    if (changed || clock.switches > before) {
        clock.deployments++;
        freeze_if_spent(spec, clock);
    }
}

// ---- play.py ------------------------------------------------------------------------------------

// Of several numbers in registers that one which is not known to the compiler.
__device__ __forceinline__ int choose(const int *numbers, int which) {
    int chosen = numbers[0];
#pragma unroll
    for (int i = 1; i < CHUNK; i++) chosen = i == which ? numbers[i] : chosen;
    return chosen;
}

// Whether a chunk that begins at step `first` has a step number i.
__device__ __forceinline__ bool within(int first, int i) {
    return (CHUNK % TEAM == 0 || i < CHUNK) && (H % CHUNK == 0 || first + i < H);
}

// Where the policy leads in steps first .. first + CHUNK - 1 from state x on; return the state
// after them. z is the place of the first step's noise, of which each lane works out a part.
__device__ __forceinline__ int follow_policy(const Model &model, const Tables &tables, int first,
                                             int x, u64 z, int *rows, int *pairs) {
    u64 bits[MINE];
#pragma unroll
    for (int m = 0; m < MINE; m++)
        bits[m] = mix(z + (u64)(2 * tables.member) * GOLDEN + (u64)(2 * TEAM * m) * GOLDEN);
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        if (H % CHUNK == 0 || first + i < H) {
            const int h = first + i;
            const u64 noise = TEAM == 1 ? bits[i / TEAM]
                                        : __shfl_sync(tables.playing, bits[i / TEAM],
                                                      tables.lane - tables.member + i % TEAM);
            rows[i] = h * S + x;
            pairs[i] = x * A + tables.action(rows[i]);
            x = model.draw(h * STRIDE + pairs[i], noise);
        }
    rows[CHUNK] = (first + CHUNK) * S + x;
    return x;
}

// Learn these steps; return which of them were triggers, and in `beaten` those whose row is due.
__device__ __forceinline__ u32 learn_steps(const Spec &spec, const int *later, const Model &model,
                                           const Tables &tables, int first, u64 z, const int *rows,
                                           const int *pairs, u32 &beaten, int &drowned) {
    Row row[MINE + 1];
    int here[MINE];
    double best[MINE], rewards[MINE];
#pragma unroll
    for (int m = 0; m < MINE; m++) {
        const int i = m * TEAM + tables.member;
        here[m] = tables.mine(rows, m * TEAM, CHUNK);
        if (within(first, i)) {
            tables.load(here[m], row[m]);
            if (TEAM > 1 && first + i + 1 < H)
                best[m] = tables.best(tables.mine(rows, m * TEAM + 1, CHUNK + 1));
            const int pair = tables.mine(pairs, m * TEAM, CHUNK);
            rewards[m] = model.reward((first + i) * REWARD_STRIDE + pair);
            if (BERNOULLI) {
                const u64 noise = mix(z + (u64)(2 * i + 1) * GOLDEN);
                rewards[m] = uniform(noise) < rewards[m] ? 1.0 : 0.0;
            }
        }
    }
    if (TEAM == 1 && CHUNK < H && first + CHUNK < H) tables.load(rows[CHUNK], row[MINE]);
    tables.meet();
    u32 due = 0;
#pragma unroll
    for (int m = 0; m < MINE; m++) {
        const int i = m * TEAM + tables.member, h = first + i;
        bool trigger = false;
        if (within(first, i)) {
            const double cap = spec.remaining ? H - (h + 1) : H;
            if (TEAM == 1) best[m] = larger(row[m + 1].q, row[m + 1].best_other);
            const double value = h + 1 < H ? smaller(cap, best[m]) : 0.0;
            trigger = digest_visit(spec, later, row[m], rewards[m], value, drowned);
        }
        due |= tables.vote(trigger) << (m * TEAM);
        beaten |= tables.vote(trigger && row[m].q < row[m].best_other) << (m * TEAM);
    }
#pragma unroll
    for (int m = 0; m < MINE; m++)
        if (within(first, m * TEAM + tables.member)) tables.store(here[m], row[m], false);
    tables.meet();
    return due;
}

// Switch the rows that are due, those of one episode side by side.
__device__ __forceinline__ void switch_rows(const Tables &tables, Clock &clock, Log &log, int k,
                                            const int *rows, u32 beaten) {
    const int size = __popc(beaten);
    u32 rest = beaten;
#pragma unroll
    for (int t = 1; t < TEAM; t++)
        if (t <= tables.member) rest &= rest - 1;
    for (int rank = tables.member; rank < size; rank += BATCH * TEAM) {
        Cell near[MOST_BATCH][MOST_NEAR];
        int which[MOST_BATCH];
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            which[j] = rest ? choose(rows, __ffs(rest) - 1) : -1;
#pragma unroll
            for (int t = 0; t < TEAM; t++) rest &= rest - 1;
            if (which[j] >= 0) tables.fetch_cells(which[j], near[j]);
        }
#pragma unroll
        for (int j = 0; j < BATCH; j++)
            if (which[j] >= 0)
                switch_row(tables, log, log.logged + rank + j * TEAM, k, which[j], near[j]);
    }
    clock.switches += size;
    log.logged += size;
}

// The same where a switch may end the budget, so that there are no triggers after it; return
// whether there was one at all.
__device__ __forceinline__ bool switch_watched(const Spec &spec, const Tables &tables, Clock &clock,
                                               Log &log, int k, const int *rows, u32 due,
                                               u32 beaten) {
    bool triggered = false;
    if (clock.frozen) due = 0;
    while (due) {
        const int i = __ffs(due) - 1;
        due &= due - 1;
        triggered = true;
        if (beaten >> i & 1) {
            Cell near[MOST_NEAR];
            tables.fetch_cells(choose(rows, i), near);
            switch_row(tables, log, log.logged, k, choose(rows, i), near);
            log.logged++, clock.switches++;
            freeze_if_spent(spec, clock);
            if (clock.frozen) due = 0;
        }
    }
    return triggered;
}

// The parts of a block's shared memory, those with the widest numbers first.
struct Shared {
    double *reals, *rewards;
    u64 *thresholds;
    u32 *both, *places;
    int *visits;
    u8 *deployed;

    __device__ __forceinline__ explicit Shared(u8 *memory) {
        reals = (double *)memory;
        rewards = reals + (ROWS_SHARED ? (BERNSTEIN ? 5 : 2) * H * S * RUNS : 0);
        thresholds = (u64 *)(rewards + (TABLES_SHARED ? REWARDS : 0));
        visits = (int *)(thresholds + (TABLES_SHARED ? COLUMNS : 0));
        places = (u32 *)visits + (ROWS_SHARED ? H * S * RUNS : 0);
        both = places + (ROWS_SHARED ? H * S * RUNS : 0);
        deployed = (u8 *)(both + (TABLES_SHARED ? COLUMNS : 0));
    }
};

__device__ __forceinline__ Model model_of(const Arguments &g, const Shared &shared, int problem) {
    Model model;
    model.columns = g.columns + g.first_columns[problem];
    model.heads = g.heads + (i64)problem * (LAWS + 1);
    model.rewards = g.rewards + (i64)problem * REWARDS;
    model.thresholds = shared.thresholds;
    model.both = shared.both;
    if (TABLES_SHARED) {
        for (int i = FIRST_THREAD; i < COLUMNS; i += THREAD_STEP) {
            shared.thresholds[i] = model.columns[i].threshold;
            shared.both[i] = model.columns[i].own | model.columns[i].other << 16;
        }
        for (int i = FIRST_THREAD; i < REWARDS; i += THREAD_STEP)
            shared.rewards[i] = model.rewards[i];
        model.rewards = shared.rewards;
    }
    __syncthreads();
    return model;
}

extern "C" __global__ void LAUNCH_BOUNDS(THREADS) play(const Arguments g) {
    SHARED_MEMORY(memory);
    const Shared shared(memory);
    const int problem = g.problems[blockIdx.x];
    const Model model = model_of(g, shared, problem);
    const int lane = (int)threadIdx.x & 31, member = lane % TEAM;
    const int thread = (int)(threadIdx.x >> 5) * LANES + lane / TEAM;
    const bool is_run = lane / TEAM < LANES && thread < RUNS;
    const u64 run = (u64)blockIdx.x * RUNS + (is_run ? thread : 0);
    const int setting = g.settings[run];
    int k = g.next[run];
    bool going = is_run && setting >= 0 && k < g.last;
    const bool played = going;  // all lanes of a warp stay together, those without a run idle
    Tables tables{g, run, thread, lane, member, shared.reals, shared.visits, shared.places,
                  shared.deployed, 0};
    if (played && (ROWS_SHARED || ACTIONS_SHARED)) {
#pragma unroll 2
        for (int row = member; row < H * S; row += TEAM) {
            const int action = g.actions[(u64)row * g.runs + run];
            tables.action(row) = (u8)action;
            if (ROWS_SHARED) {
                Row it;
                tables.load_cell(row, action, it);
                it.best_other = tables.best_of_others(row, action);
                tables.store(row, it, true);
            }
        }
    }
    __syncwarp();
    const Spec spec = g.specs[played ? setting : 0];
    const int *later = g.later + spec.later;
    Clock clock = g.clocks[run];
    Log log{g.changes + run, g.runs, g.logged[run]};
    const Column *start_columns = g.start_columns + ((u64)problem << START_LOG);
    const int *starts = g.starts + (u64)problem * g.start_size;
    int next_mark = played && clock.mark < g.marks_size ? g.marks[clock.mark] : NEVER, drowned = 0;
    u64 episode = g.keys[run] + (u64)k * (2 * H + 1) * GOLDEN;
#pragma unroll 1
    while (true) {
        if (LOGGED && log.logged + ROOM > g.log_size) going = false;
        tables.playing = TEAM > 1 ? __ballot_sync(0xffffffffu, going) : going;
        if (!tables.playing) break;
        if (!going) continue;
        int x = g.start;
        if (START == DRAWN) x = draw_start(start_columns, mix(episode));
        if (START == SEQUENCE) x = starts[k];
        bool changed = false, triggered = false;
        u64 z = episode + GOLDEN;
        episode += (u64)(2 * H + 1) * GOLDEN;
#pragma unroll 1
        for (int h = 0; h < H; h += CHUNK) {
            int rows[CHUNK + 1], pairs[CHUNK];
            u32 beaten = 0;
            x = follow_policy(model, tables, h, x, z, rows, pairs);
            const u32 due =
                learn_steps(spec, later, model, tables, h, z, rows, pairs, beaten, drowned);
            const i64 before = clock.switches;
            if (WATCHED)
                triggered |= switch_watched(spec, tables, clock, log, k, rows, due, beaten);
            else if (beaten)
                switch_rows(tables, clock, log, k, rows, beaten);
            tables.meet();
            changed |= clock.switches > before;
            z += (u64)(2 * CHUNK) * GOLDEN;
        }
        if (WATCHED) end_episode(g, spec, tables, clock, log, k, changed, triggered);
        else clock.deployments += changed;
        k++;
        if (k == next_mark) {
            const u64 place = (u64)clock.mark * g.runs + run;
            if (member == 0) g.curve_switches[place] = clock.switches;
            if (member == 0) g.curve_deployments[place] = clock.deployments;
            clock.mark++;
            next_mark = clock.mark < g.marks_size ? g.marks[clock.mark] : NEVER;
        }
        going = k < g.last;
    }
    for (int t = 0; t < TEAM; t++)
        clock.drowned += TEAM == 1 ? drowned : __shfl_sync(0xffffffffu, drowned, lane - member + t);
    if (!played) return;
    if (member == 0) {
        g.clocks[run] = clock;
        g.next[run] = k;
        g.logged[run] = log.logged;
    }
#pragma unroll 2
    for (int row = member; row < H * S; row += TEAM) {
        if (ROWS_SHARED) {
            Row it;
            tables.load(row, it);
            tables.store_cell(row, tables.action(row), it);
        }
        if (ACTIONS_SHARED) g.actions[(u64)row * g.runs + run] = tables.action(row);
    }
}

// Optimism everywhere, and the lowest allowed action deployed.
extern "C" __global__ void begin(const Arguments g) {
    const u64 run = (u64)blockIdx.x * RUNS + threadIdx.x;
    const int setting = g.settings[run], problem = g.problems[blockIdx.x];
    if (setting < 0) return;
    const Spec spec = g.specs[setting];
    const Tables tables{g, run, 0, 0, 0, nullptr, nullptr, nullptr, nullptr, 0};
    g.clocks[run] = Clock{0, 0, 0, 0, 0, 0, 0, 0};
    g.balances[run] = Balance{0.0, g.first_gaps[problem], 0, 0};
    g.next[run] = g.logged[run] = 0;
    for (int row = 0; row < H * S; row++) {
        const u8 *allowed = g.allowed + ((u64)problem * H * S + row) * A;
        const double cap = spec.remaining ? H - row / S : H;
        Row it{cap, LOWEST, 0, GROWING ? (u32)spec.least : 0u};
        int action = -1;
        for (int a = 0; a < A; a++) {
            it.q = allowed[a] ? cap : LOWEST;
            tables.store_cell(row, a, it);
            if (allowed[a] && action >= 0) it.best_other = cap;
            if (allowed[a] && action < 0) action = a;
        }
        it.q = cap;
        g.actions[(u64)row * g.runs + run] = (u8)action;
        for (int i = 0; i < HELPERS * LOGGED; i++)
            g.evaluated[((u64)row * HELPERS + i) * g.runs + run] = (u8)action;
        if (!ROWS_SHARED) {
            put(tables.row_at(row), Cell{it.q, it.visits, it.place});
            put(tables.row_at(row) + 1, Pair{it.best_other, 0.0});
            if (BERNSTEIN) put(tables.row_at(row) + 2, Pair{0.0, 0.0});
        }
    }
}

// How many visits were triggers, and how often all rows were refreshed.
extern "C" __global__ void count_triggers(const Arguments g) {
    const u64 run = (u64)blockIdx.x * RUNS + threadIdx.x;
    const int setting = g.settings[run];
    if (setting < 0) return;
    const Spec spec = g.specs[setting];
    const Tables tables{g, run, 0, 0, 0, nullptr, nullptr, nullptr, nullptr, 0};
    i64 total = g.clocks[run].refreshes;
    for (int row = 0; row < H * S; row++)
        for (int a = 0; a < A; a++) {
            int visits = tables.cells_at(row)[a].visits;
            if (!ROWS_SHARED && a == g.actions[(u64)row * g.runs + run])
                visits = fetch<Cell>(tables.row_at(row)).visits;
            int low = 0, high = spec.later_size;
            while (low < high) {
                const int middle = (low + high) / 2;
                if (g.later[spec.later + middle] <= visits) low = middle + 1;
                else high = middle;
            }
            total += low + (visits < spec.every_until ? visits : spec.every_until);
        }
    g.triggers[run] = total;
}

// ---- values.py ----------------------------------------------------------------------------------

__device__ __forceinline__ void meet() {  // the threads of a group see what each other wrote
    if (GROUP > 1) __syncwarp();
}

// Exact values of the deployed policy of one run, on which GROUP threads work together.
struct Evaluation {
    const Arguments &g;
    u64 run;
    int problem, helper, lane;
    const double *outflow;  // [laws * WIDE]  successor probabilities, then the reward
    double *mass;           // [2 * (S + 1)]  the law of the state; at S the mean reward before
    u32 *origins;           // [S]  where the deployed action's law begins in `outflow`

    __device__ __forceinline__ int pair(int h, int x) const {
        return x * A + g.evaluated[((u64)(h * S + x) * HELPERS + helper) * g.runs + run];
    }
    __device__ __forceinline__ u32 origin(int h, int x) const {
        return (u32)(h * STRIDE + pair(h, x)) * WIDE;
    }
};

// Few states: the whole law of the state is in registers. The sum of four is two sums of two.
__device__ __forceinline__ double flow_in_registers(const Evaluation &it, double *mass) {
    double next[MOST_WIDE];
#pragma unroll 1
    for (int h = 0; h < H - 1; h++) {
#pragma unroll
        for (int y = 0; y < MOST_WIDE; y++) next[y] = -0.0;
#pragma unroll
        for (int x = 0; x < MOST_WIDE - 3; x += 4)
            if (x + 4 <= S) {
                const Pair *p0 = (const Pair *)(it.outflow + it.origin(h, x));
                const Pair *p1 = (const Pair *)(it.outflow + it.origin(h, x + 1));
                const Pair *p2 = (const Pair *)(it.outflow + it.origin(h, x + 2));
                const Pair *p3 = (const Pair *)(it.outflow + it.origin(h, x + 3));
                const double m0 = mass[x], m1 = mass[x + 1], m2 = mass[x + 2], m3 = mass[x + 3];
#pragma unroll
                for (int y = 0; y < MOST_WIDE; y += 2)
                    if (y <= S) {
                        const Pair a = p0[y / 2], b = p1[y / 2], c = p2[y / 2], d = p3[y / 2];
                        next[y] += (m0 * a.first + m1 * b.first) + (m2 * c.first + m3 * d.first);
                        next[y + 1] +=
                            (m0 * a.second + m1 * b.second) + (m2 * c.second + m3 * d.second);
                    }
            }
#pragma unroll
        for (int x = 0; x < MOST_WIDE; x++)
            if (x >= S / 4 * 4 && x < S) {
                const Pair *p = (const Pair *)(it.outflow + it.origin(h, x));
#pragma unroll
                for (int y = 0; y < MOST_WIDE; y += 2)
                    if (y <= S) {
                        next[y] += mass[x] * p[y / 2].first;
                        next[y + 1] += mass[x] * p[y / 2].second;
                    }
            }
#pragma unroll
        for (int y = 0; y < MOST_WIDE; y++) mass[y] = y == S ? next[y] + mass[y] : next[y];
    }
    double value = -0.0, before = 0.0;
#pragma unroll
    for (int x = 0; x < MOST_WIDE - 3; x += 4)
        if (x + 4 <= S)
            value += (mass[x] * it.outflow[it.origin(H - 1, x) + S] +
                      mass[x + 1] * it.outflow[it.origin(H - 1, x + 1) + S]) +
                     (mass[x + 2] * it.outflow[it.origin(H - 1, x + 2) + S] +
                      mass[x + 3] * it.outflow[it.origin(H - 1, x + 3) + S]);
#pragma unroll
    for (int x = 0; x < MOST_WIDE; x++) {
        if (x >= S / 4 * 4 && x < S) value += mass[x] * it.outflow[it.origin(H - 1, x) + S];
        if (x == S) before = mass[x];
    }
    return value + before;
}

// Many states: a thread has every GROUP-th successor, and the law of the state is in shared memory.
__device__ __forceinline__ double flow_dense(const Evaluation &it) {
    const double *here = it.mass;
    double *there = it.mass + S + 1;
    for (int h = 0; h < H - 1; h++) {
        for (int x = it.lane; x < S; x += GROUP) it.origins[x] = it.origin(h, x);
        meet();
        for (int y = it.lane; y <= S; y += GROUP) {
            double next = -0.0;
            int x = 0;
#pragma unroll 4
            for (; x + 4 <= S; x += 4) {
                const double p0 = __ldg(it.outflow + it.origins[x] + y);
                const double p1 = __ldg(it.outflow + it.origins[x + 1] + y);
                const double p2 = __ldg(it.outflow + it.origins[x + 2] + y);
                const double p3 = __ldg(it.outflow + it.origins[x + 3] + y);
                next += (here[x] * p0 + here[x + 1] * p1) + (here[x + 2] * p2 + here[x + 3] * p3);
            }
            for (; x < S; x++) next += here[x] * __ldg(it.outflow + it.origins[x] + y);
            there[y] = y == S ? next + here[y] : next;
        }
        meet();
        const double *last = there;
        there = (double *)here;
        here = last;
    }
    double value = -0.0;
    int x = 0;
    for (; x + 4 <= S; x += 4)
        value += (here[x] * it.outflow[it.origin(H - 1, x) + S] +
                  here[x + 1] * it.outflow[it.origin(H - 1, x + 1) + S]) +
                 (here[x + 2] * it.outflow[it.origin(H - 1, x + 2) + S] +
                  here[x + 3] * it.outflow[it.origin(H - 1, x + 3) + S]);
    for (; x < S; x++) value += here[x] * it.outflow[it.origin(H - 1, x) + S];
    value += here[S];
    meet();
    return value;
}

// Tables that are mostly zero: from the lists of nonzeros, the law of the state in global memory.
struct Listed {
    double *mass;
    u64 runs;
    __device__ __forceinline__ double &at(int side, int y) const {
        return mass[(u64)(side * (S + 1) + y) * runs];
    }
};

__device__ __forceinline__ double flow_listed(const Evaluation &it, const Listed &law) {
    const Arguments &g = it.g;
    const i64 *offsets = g.offsets + (i64)it.problem * (LAWS + 1);
    const i64 nonzeros = g.first_nonzeros[it.problem];
    const double *rewards = g.rewards + (i64)it.problem * REWARDS;
    int side = 0;
    for (int h = 0; h < H - 1; h++, side = 1 - side) {
        for (int y = 0; y < S; y++) law.at(1 - side, y) = 0.0;
        double before = law.at(side, S);
        for (int x = 0; x < S; x++) {
            const double m = law.at(side, x);
            if (m > 0) {
                const int pair = it.pair(h, x);
                const i64 row = (i64)h * STRIDE + pair;
                for (i64 j = nonzeros + offsets[row]; j < nonzeros + offsets[row + 1]; j++)
                    law.at(1 - side, g.successors[j]) += m * g.probabilities[j];
                before += m * rewards[h * REWARD_STRIDE + pair];
            }
        }
        law.at(1 - side, S) = before;
    }
    double value = law.at(side, S);
    for (int x = 0; x < S; x++)
        value += law.at(side, x) * rewards[(H - 1) * REWARD_STRIDE + it.pair(H - 1, x)];
    return value;
}

// What start states count: those of a law, or of episodes first .. last - 1 of a start sequence.
// Return the value of the deployed policy summed over them, and in `best` that of an optimal one.
__device__ double deployed_value(const Evaluation &it, int first, int last, double &best) {
    const Arguments &g = it.g;
    const double *start_law = g.start_laws + (u64)it.problem * S;
    const double *optimal = g.optimal + (u64)it.problem * S;
    const int *starts = g.starts + (u64)it.problem * g.start_size;
    const bool counts = START == SEQUENCE;
    best = 0.0;
    if (DENSE && IN_REGISTERS) {
        double mass[MOST_WIDE];
#pragma unroll
        for (int y = 0; y < MOST_WIDE; y++) mass[y] = !counts && y < S ? start_law[y] : 0.0;
        if (counts)
            for (int k = first; k < last; k++) {
                const int start = starts[k];
#pragma unroll
                for (int y = 0; y < MOST_WIDE; y++) mass[y] += y == start ? 1.0 : 0.0;
            }
#pragma unroll
        for (int y = 0; y < MOST_WIDE; y++)
            if (counts && y < S) best += mass[y] * optimal[y];
        return flow_in_registers(it, mass);
    }
    const Listed law{g.masses + it.run, g.runs};
    if (it.lane == 0) {
        for (int y = 0; y <= S; y++) {
            const double mass = !counts && y < S ? start_law[y] : 0.0;
            if (DENSE) it.mass[y] = mass;
            else law.at(0, y) = mass;
        }
        if (counts)
            for (int k = first; k < last; k++) {
                if (DENSE) it.mass[starts[k]] += 1.0;
                else law.at(0, starts[k]) += 1.0;
            }
    }
    meet();
    if (counts)
        for (int y = 0; y < S; y++) best += (DENSE ? it.mass[y] : law.at(0, y)) * optimal[y];
    return DENSE ? flow_dense(it) : flow_listed(it, law);
}

// Charge the deployed policy for the episodes before `last`; fill in its curve on the way.
__device__ void charge(const Evaluation &it, Balance &balance, int last) {
    const Arguments &g = it.g;
    while (balance.charged < last) {
        const int mark = balance.passed;
        const int next_mark = mark < g.marks_size ? g.marks[mark] : NEVER;
        const int stop = last < next_mark ? last : next_mark;
        if (START == SEQUENCE) {
            double best;
            const double value = deployed_value(it, balance.charged, stop, best);
            balance.regret += best - value;
        } else {
            balance.regret += balance.gap * (stop - balance.charged);
        }
        balance.charged = stop;
        if (stop == next_mark) {
            g.curve_regret[(u64)mark * g.runs + it.run] = balance.regret;
            balance.passed = mark + 1;
        }
    }
}

// The row changes of a run in order, fetched some at a time.
struct Changes {
    const Change *all;
    u64 runs;
    int used, i;
    Change ahead[AHEAD];

    __device__ __forceinline__ Changes(const Arguments &g, u64 run)
        : all(g.changes + run), runs(g.runs), used(g.logged[run]), i(0) {
        fetch_more();
    }
    __device__ __forceinline__ void fetch_more() {
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const int place = i + j < used ? i + j : used - 1;
            if (used) ahead[j] = all[(u64)place * runs];
        }
    }
    __device__ __forceinline__ bool left() const { return i < used; }
    __device__ __forceinline__ Change now() const { return ahead[i % AHEAD]; }
    __device__ __forceinline__ void advance() {
        i++;
        if (i % AHEAD == 0) fetch_more();
    }
};

// Follow the row changes of one episode.
__device__ __forceinline__ void follow(const Evaluation &it, Changes &changes) {
    const u32 k = changes.now().episode;
    do {
        const u32 cell = changes.now().cell;
        const u64 place = ((u64)(cell / A) * HELPERS + it.helper) * it.g.runs + it.run;
        if (it.lane == 0) it.g.evaluated[place] = (u8)(cell % A);
        changes.advance();
    } while (changes.left() && changes.now().episode == k);
}

// What GROUP threads need to evaluate policies of one run, of which each has HELPERS such groups;
// where there is none for this thread, its run is `runs`.
__device__ __forceinline__ Evaluation evaluation_of(const Arguments &g, u8 *memory) {
    const int block = blockIdx.x / SETTLE_SPLIT, part = blockIdx.x % SETTLE_SPLIT;
    const int problem = g.problems[block], group = threadIdx.x / GROUP;
    const double *laws = g.outflow + (u64)problem * LAWS * WIDE;
    double *rest = (double *)memory;
    if (DENSE && OUTFLOW_SHARED) {
        for (int i = FIRST_THREAD; i < LAWS * WIDE; i += THREAD_STEP) rest[i] = laws[i];
        laws = rest;
        rest += LAWS * WIDE;
    }
    __syncthreads();
    const int number = part * (SETTLE_THREADS / GROUP) + group;  // helper by helper
    const u64 run = (u64)block * RUNS + number % RUNS;
    const bool works = number < RUNS * HELPERS && g.settings[run] >= 0;
    double *mass = rest + (u64)group * (2 * (S + 1) + (S + 1) / 2);
    u32 *origins = (u32 *)(mass + 2 * (S + 1));
    return Evaluation{g,    works ? run : g.runs, problem, number / RUNS, (int)threadIdx.x % GROUP,
                      laws, mass,                 origins};
}

// How far each logged deployment is below the optimum. A helper follows all of them, and evaluates
// every HELPERS-th.
extern "C" __global__ void LAUNCH_BOUNDS(SETTLE_THREADS) evaluate(const Arguments g) {
    SHARED_MEMORY(memory);
    const Evaluation it = evaluation_of(g, memory);
    if (it.run == g.runs) return;
    Changes changes(g, it.run);
    int deployment = 0;
    for (int next = it.helper; changes.left(); next += HELPERS) {
        for (; changes.left() && deployment <= next; deployment++) follow(it, changes);
        meet();
        if (deployment <= next) break;
        double unused;
        const double gap = g.best[it.problem] - deployed_value(it, 0, 0, unused);
        if (it.lane == 0) g.gaps[(u64)next * g.runs + it.run] = gap;
    }
}

// Follow the deployments in the log, and charge what was deployed meanwhile. The policies of a
// start sequence are evaluated here, each for the states in which its episodes began.
extern "C" __global__ void LAUNCH_BOUNDS(SETTLE_THREADS) settle(const Arguments g) {
    SHARED_MEMORY(memory);
    const Evaluation it = evaluation_of(g, memory);
    if (it.run == g.runs || it.helper > 0) return;
    Balance balance = g.balances[it.run];
    Changes changes(g, it.run);
    for (int deployment = 0; changes.left(); deployment++) {
        const u32 k = changes.now().episode;
        charge(it, balance, (int)k + 1);
        if (START == SEQUENCE) {
            follow(it, changes);
            meet();
        } else {
            while (changes.left() && changes.now().episode == k) changes.advance();
            balance.gap = g.gaps[(u64)deployment * g.runs + it.run];
        }
    }
    while (balance.passed < g.marks_size && g.marks[balance.passed] <= g.next[it.run])
        charge(it, balance, g.marks[balance.passed]);
    if (it.lane == 0) {
        g.balances[it.run] = balance;
        g.logged[it.run] = 0;
    }
}
