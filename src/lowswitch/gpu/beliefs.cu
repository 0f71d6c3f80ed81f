// One level of the recursions of kernels/beliefs.py on a GPU, equal to the CPU to the bit: its
// functions have the same names, and no multiplication is fused with an addition (-fmad=false).

typedef long long i64;

struct Arguments {
    const int *leads;        // [L, width]
    const i64 *bases;        // [L]
    const i64 *further;      // [L, width]
    const double *prior;     // [A, 2], or [rows, S]
    const double *later;     // [layers, choices, later_size]
    double *now;             // [layers, choices, now_size]
    const i64 *codes;        // [beliefs]
    const i64 *later_codes;  // [later_beliefs]
    const i64 *added;        // [J]
    const i64 *paths;        // [J, H, 2]
    const double *paid;      // [J]
    const i64 *followers;    // [J, followed]
    i64 t, width, choices, layers, now_size, later_size;
    i64 beliefs, later_beliefs, J, H, S, followed, bits;
};

__device__ double best_of(const Arguments &it, i64 left, i64 place) {
    const double *values = it.later + left * it.choices * it.later_size + place;
    double best = values[0];
    for (i64 choice = 1; choice < it.choices; choice++) {
        const double value = values[choice * it.later_size];
        best = value > best ? value : best;
    }
    return best;
}

__device__ double go_on(const Arguments &it, i64 left, i64 choice, i64 place) {
    if (left == it.layers - 1) return best_of(it, left, place);
    const double stay = it.later[(left * it.choices + choice) * it.later_size + place];
    if (left == 0) return stay;
    const double best = best_of(it, left - 1, place);
    return best > stay ? best : stay;
}

// A block has a lead, and its threads share the beliefs of it.
extern "C" __global__ void pull_level(const Arguments it) {
    const i64 lead = blockIdx.x, A = it.choices;
    const int *coordinates = it.leads + lead * it.width;
    const i64 *further = it.further + lead * it.width;
    i64 rest = it.t;
    for (i64 i = 0; i < it.width; i++) rest -= coordinates[i];
    for (i64 z = threadIdx.x; z <= rest; z += blockDim.x) {
        const i64 place = it.bases[lead] + z;
        for (i64 a = 0; a < A; a++) {
            const bool last = a == A - 1;
            const i64 won = last ? z : coordinates[2 * a];
            const i64 lost = last ? rest - z : coordinates[2 * a + 1];
            const i64 up = last ? place + 1 : further[2 * a] + z;
            const i64 down = last ? place : further[2 * a + 1] + z;
            const double p = (it.prior[2 * a] + won) /
                             (it.prior[2 * a] + it.prior[2 * a + 1] + (won + lost));
            for (i64 left = 0; left < it.layers; left++) {
                const double good = go_on(it, left, a, up), bad = go_on(it, left, a, down);
                it.now[(left * A + a) * it.now_size + place] = p * (1.0 + good) + (1.0 - p) * bad;
            }
        }
    }
}

__device__ i64 find(const Arguments &it, i64 code) {
    i64 low = 0, high = it.later_beliefs;
    while (high - low > 1) {
        const i64 middle = (low + high) / 2;
        if (it.later_codes[middle] <= code) low = middle;
        else high = middle;
    }
    return low;
}

__device__ double path_probability(const Arguments &it, i64 code, const i64 *path) {
    double probability = 1.0;
    for (i64 h = 0; h < it.H; h++) {
        const i64 row = path[2 * h], successor = path[2 * h + 1];
        double total = 0.0, hits = 0.0;
        for (i64 x = 0; x < it.S; x++) {
            const i64 cell = row * it.S + x;
            double seen = it.prior[cell] + ((code >> (cell * it.bits)) & ((1LL << it.bits) - 1));
            for (i64 earlier = 0; earlier < h; earlier++)
                if (path[2 * earlier] == row && path[2 * earlier + 1] == x) seen += 1.0;
            total += seen;
            if (x == successor) hits = seen;
        }
        probability *= hits / total;
    }
    return probability;
}

// A thread has a belief.
extern "C" __global__ void episode_level(const Arguments it) {
    const i64 place = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= it.beliefs) return;
    for (i64 entry = 0; entry < it.layers * it.choices; entry++)
        it.now[entry * it.now_size + place] = 0.0;
    for (i64 j = 0; j < it.J; j++) {
        const double p = path_probability(it, it.codes[place], it.paths + 2 * j * it.H);
        const i64 after = find(it, it.codes[place] + it.added[j]);
        for (i64 i = 0; i < it.followed; i++) {
            const i64 policy = it.followers[j * it.followed + i];
            for (i64 left = 0; left < it.layers; left++) {
                const double value = it.paid[j] + go_on(it, left, policy, after);
                it.now[(left * it.choices + policy) * it.now_size + place] += p * value;
            }
        }
    }
}
