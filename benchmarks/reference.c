/* The four algorithms of lowswitch as one would write them down in C from the pseudo-code of Bai et al. 2019: the yardstick of speed.py.

   It is fair because it does the same work: it draws the same random numbers from the same alias tables and evaluates the same expressions
   in the same order, so that its switch counts must equal the library's. It is plain because it has one array for each letter of the
   pseudo-code, looks for the maximum of a row at every step and copies the row at every trigger. It keeps no log, curve or regret, and
   knows only what the benchmark needs: stationary tables, deterministic rewards, values capped at H. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* SplitMix64 as a counter (Steele, Lea, Flood 2014). */
static inline uint64_t noise(uint64_t key, uint64_t address)
{
    uint64_t z = key + address * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

typedef struct {
    const int64_t *heads;     /* [S * A + 1]  first column << 6 | log2(columns); the last is the start law */
    const int64_t *threshold; /* [columns] */
    const int32_t *own, *other;
} Alias;

/* Walker 1977. */
static inline int64_t draw(const Alias *alias, int64_t row, uint64_t bits)
{
    int64_t head = alias->heads[row], log_columns = head & 63;
    int64_t column = (head >> 6) + (int64_t)((bits >> 1) >> (63 - log_columns));
    int64_t inside = (int64_t)((bits << log_columns) >> 1) < alias->threshold[column];
    return inside ? alias->own[column] : alias->other[column];
}

static double *filled(int64_t size, double value)
{
    double *array = malloc(size * sizeof *array);
    for (int64_t i = 0; i < size; i++)
        array[i] = value;
    return array;
}

/* counts [2] gets the local switches and the deployments. */
void reference(int64_t H, int64_t S, int64_t A, int64_t K, int64_t bernstein, double c1, double c2, double H_iota, double lower_order,
               double H3_iota, int64_t every_until, const int64_t *later, const int64_t *heads, const int64_t *threshold,
               const int32_t *own, const int32_t *other, const double *rewards, uint64_t key, int64_t *counts)
{
    const Alias alias = {heads, threshold, own, other};
    double *Qt = filled(H * S * A, H), *Q = filled(H * S * A, H), *V = filled((H + 1) * S, H);
    double *mu = filled(H * S * A, 0), *sigma = filled(H * S * A, 0), *beta = filled(H * S * A, 0);
    int32_t *N = calloc(H * S * A, sizeof *N);
    int32_t *passed = calloc(H * S * A, sizeof *passed); /* triggers of `later` behind this cell */
    int32_t *policy = calloc(H * S, sizeof *policy);     /* the argmax of Q, kept because ties go to the incumbent */
    for (int64_t x = 0; x < S; x++)
        V[H * S + x] = 0;
    counts[0] = counts[1] = 0;

    for (int64_t k = 0; k < K; k++) {
        uint64_t address = (uint64_t)k * (uint64_t)(2 * H + 1);
        int64_t x = draw(&alias, S * A, noise(key, address)), switches = 0;
        for (int64_t h = 0; h < H; h++) {
            int64_t row = h * S + x, a = policy[row], i = row * A + a;
            int64_t y = draw(&alias, x * A + a, noise(key, address + 1 + 2 * h));

            int64_t n = ++N[i];
            double alpha = (double)(H + 1) / (double)(H + n), share = 1.0 / (double)n;
            double next_value = V[(h + 1) * S + y], weighted_bonus;
            if (bernstein) {
                mu[i] += next_value;
                sigma[i] += next_value * next_value;
                double mean = mu[i] * share, W = sigma[i] * share - mean * mean;
                if (W < 0)
                    W = 0;
                double width = c1 * (sqrt(H_iota * share * (W + (double)H)) + lower_order * share);
                double hoeffding = c2 * sqrt(H3_iota * share);
                if (hoeffding < width)
                    width = hoeffding;
                weighted_bonus = 0.5 * (width - (1 - alpha) * beta[i]);
                beta[i] = width;
            } else {
                weighted_bonus = alpha * (c2 * sqrt(H3_iota * share));
            }
            Qt[i] = (1 - alpha) * Qt[i] + alpha * (rewards[x * A + a] + next_value) + weighted_bonus;

            double best = Qt[row * A];
            for (int64_t b = 1; b < A; b++)
                if (Qt[row * A + b] > best)
                    best = Qt[row * A + b];
            V[row] = best < (double)H ? best : (double)H;

            if (n <= every_until || n == later[passed[i]]) {
                passed[i] += n > every_until;
                for (int64_t b = 0; b < A; b++)
                    Q[row * A + b] = Qt[row * A + b];
                if (Q[i] < best) {
                    int64_t b = 0;
                    while (Q[row * A + b] < best)
                        b++;
                    policy[row] = b;
                    switches++;
                }
            }
            x = y;
        }
        counts[0] += switches;
        counts[1] += switches > 0;
    }
    free(Qt), free(Q), free(V), free(mu), free(sigma), free(beta), free(N), free(passed), free(policy);
}
