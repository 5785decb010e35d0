/* Propagate: integrate all segments of one record, with sensitivities, outputs and their derivatives, in one call.

   Stands behind stages.c (and implicit_stages.c), which say what stands in front of them. */

#if ADAPTIVE
#define MEMORY Radau
#define TAKE(memory, work) radau_memory(memory, work)
#define BEGIN(memory, w) radau_begin(memory)
#define ONE_STEP_WORK RADAU_WORK
#elif STAGES > 0
#define ONE_STEP_WORK STEP_WORK
#define MEMORY Newton
#define TAKE(memory, work) newton_memory(memory, work)
#define BEGIN(memory, w) (memory)->length = 0
#define STEP(t, h, x, u0, u1, p, memory) step(t, h, x, u0, u1, p, memory)
#define STEP_Q(t, h, x, u0, u1, p, S, w, m, memory) step_q(t, h, x, u0, u1, p, S, w, m, memory)
#else
#define ONE_STEP_WORK STEP_WORK
#define MEMORY double *
#define TAKE(memory, work) *(memory) = (work)
#if DERIVATIVES
#define BEGIN(memory, w) begin_q(*(memory), w)
#else
#define BEGIN(memory, w) (void)0
#endif
#define STEP(t, h, x, u0, u1, p, memory) step(t, h, x, u0, u1, p)
#define STEP_Q(t, h, x, u0, u1, p, S, w, m, memory) step_q(t, h, x, u0, u1, p, S, w, m, *(memory))
#if !DERIVATIVES
#define STEP_WORK 0
#endif
#endif
#if DERIVATIVES
#define WORK (ONE_STEP_WORK + (NX + NY) * PADDED(NQ + 1) + NX * PADDED(NQ))
#else
#define WORK ONE_STEP_WORK
#endif
#define ON_STACK 8192 /* numbers; more of them come from the heap */

/* A record: its times, sub-steps, inputs, and where outputs are wanted; and where its results go. */
typedef struct {
  const double *t;
  const int *substeps;
  const double *u_begin, *u_end, *u_node;
  Parameters p;
  const unsigned char *wanted;
  double *X, *Y, *D;
} Record;

/* Columns of S: `lead` of the segment's first states, by number, and all free parameters. */
typedef struct {
  int lead;
  const int *active;
} Columns;

#if DERIVATIVES
/* n rows of w numbers to rows of NQ, where columns that are not carried are 0. */
INLINE void spread(int n, const double *from, int w, Columns columns, double *to) {
  int i, j;
  for (i = 0; i < n; i++) {
    double *row = to + i * NQ;
    const double *own = from + i * w;
    if (columns.lead == NX) { memcpy(row, own, NQ * sizeof(double)); continue; }
    memset(row, 0, NX * sizeof(double));
    for (j = 0; j < columns.lead; j++) row[columns.active[j]] = own[j];
    memcpy(row + NX, own + columns.lead, NF * sizeof(double));
  }
}
#endif

/* From node k to the next, the parameters in columns from m on; 0 where a step has no solution. */
INLINE int between(const Record *r, long long k, Parameters p, int sens, int w, int m, double *x, double *S, MEMORY *memory) {
  const double *u_begin = r->u_begin + k * NU, *u_end = r->u_end + k * NU;
  if (r->t[k + 1] == r->t[k]) return 1; /* measured again at the same time */
#if ADAPTIVE
  int a, jumped = 0;
  for (a = 0; a < NU; a++) jumped = jumped || (k > 0 && u_begin[a] != u_end[a - NU]);
  if (jumped) memory->newton.length = 0; /* the rates before say nothing about those behind */
  return radau_interval(r->t[k], r->t[k + 1] - r->t[k], x, u_begin, u_end, p, sens, S, w, m, memory);
#else
  const int count = r->substeps[k];
  const double h = (r->t[k + 1] - r->t[k]) / count;
  double u0[SIZE(NU)], u1[SIZE(NU)], slope[SIZE(NU)];
  int a, n;
  for (a = 0; a < NU; a++) slope[a] = (u_end[a] - u_begin[a]) / count;
  for (n = 0; n < count; n++) {
    const double now = r->t[k] + n * h;
    for (a = 0; a < NU; a++) {
      u0[a] = u_begin[a] + n * slope[a];
      u1[a] = u_begin[a] + (n + 1) * slope[a];
    }
#if DERIVATIVES
    if (sens) {
      if (!STEP_Q(now, h, x, u0, u1, p, S, w, m, memory)) return 0;
      continue;
    }
#endif
    if (!STEP(now, h, x, u0, u1, p, memory)) return 0;
  }
  return 1;
#endif
}

/* From node k on to node `last`, whose results belong to the next segment unless `final`. Returns -1 or as below. */
INLINE long long segment(const Record *r, long long k, long long last, int final, int sens, int w, Columns columns, double *x,
                         double *S, double *D, MEMORY *memory) {
#if UNROLLED && NA == 0 /* where nothing else can write to them, what follows from the parameters alone is computed once */
  double p[SIZE(NP)];
  memcpy(p, r->p, NP * sizeof(double));
#else
  Parameters p = r->p;
#endif
  BEGIN(memory, w);
  for (;; k++) {
    if (!finite_all(x, NX)) { memcpy(r->X + k * NX, x, NX * sizeof(double)); return k; }
#if NA
    p->lost = 0;
#endif
    if (k < last || final) {
      memcpy(r->X + k * NX, x, NX * sizeof(double));
      if (r->wanted[k]) {
#if DERIVATIVES
        if (sens) {
          outputs_q(r->t + k, x, r->u_node + k * NU, p, S, w, columns.lead, r->Y + k * NY, D);
          spread(NY, D, w, columns, r->D + k * NY * NQ);
        } else
#endif
        outputs(r->t + k, x, r->u_node + k * NU, p, r->Y + k * NY);
        if (!finite_all(r->Y + k * NY, NY)) return k;
      }
    }
    if (k == last) return -1;
    if (!between(r, k, p, sens, w, columns.lead, x, S, memory)) return -2 - (k + 1);
  }
}

static long long segment_plain(const Record *r, long long k, long long last, int final, double *x, MEMORY *memory) {
  const Columns none = {0, 0};
  return segment(r, k, last, final, 0, 0, none, x, 0, 0, memory);
}

#if DERIVATIVES
static long long segment_q(const Record *r, long long k, long long last, int final, Columns columns, double *x, double *S,
                           double *D, MEMORY *memory) {
#if UNROLLED && STAGES > 0 /* rows of a length that the compiler knows */
  if (columns.lead == NX) { columns.lead = NX; return segment(r, k, last, final, 1, PADDED(NQ), columns, x, S, D, memory); }
#endif
  return segment(r, k, last, final, 1, PADDED(columns.lead + NF), columns, x, S, D, memory);
}
#endif

#if NA
#define PREPARE(p) Model model; model.p = p; model.known = model.lost = 0; memset(model.z, 0, sizeof model.z);
#define PREPARED(p) &model
#define ANSWER(bad, node) (bad != -1 && model.lost ? LLONG_MIN + (node) : bad) /* what was lost are the algebraic variables */
#else
#define PREPARE(p)
#define PREPARED(p) p
#define ANSWER(bad, node) bad
#endif

/* Returns -1, or the node at which a state or output is not finite (its state and outputs are then in X and Y), or
   -2 - node where an implicit step that should lead to the node has no solution; LLONG_MIN + node where on the way there
   the algebraic equations have none.
   Segment i starts at node first[i] from nodes[i] and ends at node first[i+1]; each node's output belongs to the segment
   that starts there, the last node's to the last segment. In the first segment only the columns `active` of the first states
   are carried (`lead` of them, -1: all); what stands in the others is 0. */
long long dynident_march(long long segments, const long long *first, const double *t, const int *substeps,
                         const double *u_begin, const double *u_end, const double *u_node, const double *p,
                         const double *nodes, const unsigned char *wanted, int lead, const int *active, int sens,
                         double *X, double *Y, double *J, double *X_end, double *S_end) {
  PREPARE(p)
  const Record r = {t, substeps, u_begin, u_end, u_node, PREPARED(p), wanted, X, Y, J};
  long long i, bad = -1;
  double x[NX];
  MEMORY memory;
#if WORK <= ON_STACK
  double work[SIZE(WORK)];
#else
  double *work = malloc(sizeof(double) * (WORK));
  if (!work) return first[0];
#endif
  TAKE(&memory, work);
  for (i = 0; i < segments && bad == -1; i++) {
    const int final = i == segments - 1;
    memcpy(x, nodes + i * NX, sizeof x);
#if DERIVATIVES
    if (sens) {
      double *S = work + ONE_STEP_WORK, *D = S + NX * PADDED(NQ);
      int whole[NX], a, w;
      Columns columns = {NX, whole};
      for (a = 0; a < NX; a++) whole[a] = a;
      if (i == 0 && lead >= 0) { columns.lead = lead; columns.active = active; }
      w = PADDED(columns.lead + NF);
      memset(S, 0, NX * w * sizeof(double));
      for (a = 0; a < columns.lead; a++) S[columns.active[a] * w + a] = 1;
      bad = segment_q(&r, first[i], first[i + 1], final, columns, x, S, D, &memory);
      if (bad == -1) spread(NX, S, w, columns, S_end + i * NX * NQ);
    } else
#endif
    bad = segment_plain(&r, first[i], first[i + 1], final, x, &memory);
    memcpy(X_end + i * NX, x, sizeof x);
  }
#if WORK > ON_STACK
  free(work);
#endif
  return ANSWER(bad, bad >= 0 ? bad : -2 - bad);
}
