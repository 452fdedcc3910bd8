/* The boundary between generated code and the runtime: a C header, both sides include it.
 *
 * One shared object per code variant (and one per device) exports exactly one function, `dsv3_module`. It
 * returns tables: the programs (prefill, decode, ...), the kernels they launch, the fields
 * of the step buffer and the places of results. A program is a C function that calls
 * `dsv3_host_api` once per kernel launch, in order; the runtime owns all memory and all
 * threads. Nothing in the shared object allocates, and it has no undefined symbols.
 *
 * Every address is (pool, offset): pools are allocated or mapped once, at load.
 */
#ifndef DSV3_RUNTIME_CORE_ABI_H
#define DSV3_RUNTIME_CORE_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised on any change of a struct or of a meaning below; a mismatch is refused at load. */
#define DSV3_ABI 4

/* Memory pools. */
enum {
  DSV3_POOL_WEIGHTS = 0, /* packed weights, mapped read-only from the artifact */
  DSV3_POOL_KV = 1,      /* paged cache: [layer][page], kv_page_bytes each */
  DSV3_POOL_ARENA = 2,   /* intermediate values, planned at compile time */
  DSV3_POOL_STEP = 3,    /* the step buffer: fields filled by the host before a program runs */
  DSV3_POOL_PERSIST = 4, /* results (logits, hidden) and values that cross programs */
  DSV3_POOL_COUNT = 5
};

/* Numbers that change from step to step: `dsv3_step_host::scalars`. A kernel receives them as
 * scalars[0..DSV3_SCALAR_COUNT), followed by the launch's own constants. */
enum {
  DSV3_SCALAR_TOKENS = 0,          /* token rows of this step, at most the program's capacity */
  DSV3_SCALAR_SEQS = 1,            /* sequences of this step */
  DSV3_SCALAR_QBLOCKS = 2,         /* entries of the qblock field */
  DSV3_SCALAR_KBLOCKS = 3,         /* entries of the kblock field */
  DSV3_SCALAR_KV_LAYER_STRIDE = 4, /* bytes between layers of the KV pool */
  DSV3_SCALAR_COUNT = 8            /* the rest is reserved and zero */
};

/* Fields of the step buffer. T, S, P are the module's capacities: tokens, sequences, pages of
 * one sequence. The tokens of one sequence are consecutive rows. */
enum {
  DSV3_FIELD_IDS = 0,         /* i32 [T]    token ids */
  DSV3_FIELD_NEXT_IDS = 1,    /* i32 [T]    id that follows each token (MTP program only) */
  DSV3_FIELD_TOKEN_SEQ = 2,   /* i32 [T]    sequence of each row, in [0, S) */
  DSV3_FIELD_TOKEN_POS = 3,   /* i32 [T]    absolute position */
  DSV3_FIELD_TOKEN_SLOT = 4,  /* i64 [T]    cache slot: page * page_tokens + offset; -1 stores nothing */
  DSV3_FIELD_Q_START = 5,     /* i32 [S+1]  first row of each sequence */
  DSV3_FIELD_CTX_LEN = 6,     /* i32 [S]    cached tokens including this step's */
  DSV3_FIELD_BLOCK_TABLE = 7, /* i32 [S][P] page ids in order */
  DSV3_FIELD_LOGIT_ROW = 8,   /* i32 [S]    row whose logits are wanted */
  DSV3_FIELD_QBLOCK = 9,      /* i32 [QB][4] {sequence, first row, rows (<= 16), unused}: query tiles */
  DSV3_FIELD_KBLOCK = 10,     /* i32 [KB][2] {sequence, block of 64 keys}: key blocks to expand */
  DSV3_FIELD_KBLOCK_START = 11, /* i32 [S+1] first kblock of each sequence */
  DSV3_FIELD_SAMPLING = 12,     /* i32 [S][16] a dsv3_sampling: how the next token of each sequence is chosen */
  DSV3_FIELD_COUNT = 13
};

/* How one token is chosen from a row of logits, and what was chosen. runtime/core/TokenChoice.h defines both. A device
 * whose programs have an output `sampled`, i32 [S][8] (a dsv3_sampled a sequence), chooses for the rows that ask for it. */
enum {
  DSV3_SAMPLE_ROW = 1, /* the program chooses; of other rows it writes nothing */
  DSV3_SAMPLE_DRAW = 2 /* by weight; else the greatest logit */
};
enum { DSV3_SAMPLING_WORDS = 16, DSV3_SAMPLED_WORDS = 8 };

typedef struct {
  uint32_t flags;      /* DSV3_SAMPLE_* */
  uint32_t top_k;      /* 0: all */
  float scale;         /* log2(e) / temperature, finite */
  uint32_t reserved;
  uint64_t top_p;      /* p * 2^64; 0: all */
  uint64_t min_weight; /* min-p in weights: min_p * 2^40 rounded up, at most 2^40; 0: all */
  uint64_t random;     /* a number in [0, 1) in units of 2^-64 */
  uint64_t reserved2[3];
} dsv3_sampling;

typedef struct {
  int32_t id;
  int32_t fault; /* 0; or 1 + the first logit that is not finite: then all else is 0 */
  float top;     /* the greatest logit */
  float logit;   /* the chosen one */
  uint64_t mass; /* sum of the weights of all tokens at temperature 1: 2^40 for the greatest */
  uint64_t reserved;
} dsv3_sampled;

enum { DSV3_ELEM_F32 = 0, DSV3_ELEM_BF16 = 1, DSV3_ELEM_I32 = 2, DSV3_ELEM_I64 = 3 };

/* How a program's rows are chosen. */
enum {
  DSV3_PHASE_PREFILL = 0, /* chunks of prompts; logits of `logit_row` only */
  DSV3_PHASE_DECODE = 1,  /* one row per sequence */
  DSV3_PHASE_SCORE = 2,   /* as prefill, logits of every row, and `hidden` when there is an MTP module */
  DSV3_PHASE_MTP = 3      /* the MTP module over `hidden` of the score program just run */
};

/* A tile range [begin, end) of one kernel. `bufs` are the launch's references in order, resolved to
 * addresses; `scalars` see above; `scratch` is private to the calling thread, 64-byte aligned, and
 * has the kernel's `scratch_bytes`. Tiles are independent: any partition gives the same bits. */
typedef void (*dsv3_cpu_fn)(const void *const *bufs, const int64_t *scalars, int64_t begin, int64_t end,
                            void *scratch);

typedef struct {
  uint32_t pool;
  uint32_t reserved;
  uint64_t offset; /* bytes */
} dsv3_ref;

typedef struct {
  uint32_t kernel;  /* index in dsv3_module_desc::kernels */
  uint32_t n_refs;
  uint32_t n_consts;
  uint32_t reserved;
  const dsv3_ref *refs;
  const int64_t *consts;
  const char *site; /* name of the operation, for messages and profiles */
} dsv3_launch;

/* Grids on a device. The kernels are not in the shared object: `dsv3_kernel_desc::fn` is null and `symbol`
 * names an entry of the artifact's device code. Programs of a device launch grids only, and nothing in them
 * depends on the step but the rows of taps, so they can be captured once and replayed. */
enum { DSV3_MAP_U8 = 0, DSV3_MAP_BF16 = 1, DSV3_MAP_F32 = 2, DSV3_MAP_I32 = 3 };
enum { DSV3_MAP_MAX_RANK = 5 };

/* A tensor map, encoded by the driver once, at load. Innermost dim first. */
typedef struct {
  uint32_t elem, rank;                     /* DSV3_MAP_*; 1..5 */
  uint32_t swizzle, reserved;              /* bytes: 0, 32, 64, 128 */
  uint64_t dims[DSV3_MAP_MAX_RANK];        /* elements; 0 in the last: as many as the rest of the pool holds */
  uint64_t strides[DSV3_MAP_MAX_RANK - 1]; /* bytes between elements of dim 1, 2, ... */
  uint32_t box[DSV3_MAP_MAX_RANK];         /* elements that one copy moves */
  uint32_t reserved2;
} dsv3_tensor_map;

/* A parameter of a device kernel, behind the first, which is the address of the step's scalars. */
enum { DSV3_PARAM_POINTER = 0, DSV3_PARAM_MAP = 1, DSV3_PARAM_NUMBER = 2 };
typedef struct {
  uint32_t kind, reserved;
  dsv3_ref ref;               /* pointer: its address; map: the address of its first element */
  const dsv3_tensor_map *map; /* map only: 128 bytes by value, 64-byte aligned */
  int64_t number;             /* number only */
} dsv3_param;

typedef struct {
  uint32_t kernel;       /* index in dsv3_module_desc::kernels */
  uint32_t grid[3];      /* blocks */
  uint32_t block;        /* threads of a block, in x */
  uint32_t smem;         /* bytes of dynamic shared memory */
  uint32_t cluster;      /* blocks of a cluster, in x; 1: none */
  uint32_t n_params;
  const dsv3_param *params;
  const char *site;
} dsv3_grid_launch;

typedef struct {
  int64_t scalars[DSV3_SCALAR_COUNT];
} dsv3_step_host;

/* What a program may ask of the runtime. Functions return nothing: `ctx` latches the first error. */
typedef struct {
  uint32_t abi, bytes;
  void (*range)(void *ctx, const dsv3_launch *launch, int64_t tiles); /* returns when all tiles are done */
  void (*tap)(void *ctx, uint32_t tap, dsv3_ref src, int64_t rows);   /* keeps `rows` rows of a named state */
  void (*grid)(void *ctx, const dsv3_grid_launch *launch);            /* in order after the launches before it */
} dsv3_host_api;

typedef void (*dsv3_program_fn)(const dsv3_host_api *api, void *ctx, const dsv3_step_host *step);

typedef struct {
  const char *symbol; /* unique name */
  const char *key;    /* readable description: op, types, numerics, schedule */
  dsv3_cpu_fn fn;     /* null in the module of a device */
  uint64_t scratch_bytes;
} dsv3_kernel_desc;

typedef struct {
  const char *name; /* "logits", "hidden" */
  dsv3_ref ref;
  uint32_t elem, reserved;
  uint64_t cols; /* row-major [rows, cols] */
} dsv3_output_desc;

typedef struct {
  const char *name; /* "decode_b8" */
  uint32_t phase;
  uint32_t tokens, seqs, qblocks, kblocks; /* capacities of this program */
  uint32_t n_outputs;
  const dsv3_output_desc *outputs;
  dsv3_program_fn fn;
} dsv3_program_desc;

typedef struct {
  const char *name; /* "ids" */
  uint32_t kind, elem;
  uint64_t offset, count; /* bytes from the step pool's start; elements */
} dsv3_field_desc;

typedef struct {
  const char *name; /* site */
  uint32_t elem, reserved;
  uint64_t cols;
} dsv3_tap_desc;

typedef struct {
  uint32_t abi, bytes;
  const char *target;  /* "x86-64", "sm_90a" */
  const char *variant; /* "avx2", "avx512", "avx512-vnni-bf16", "amx"; "host" of a device */
  uint32_t n_programs, n_kernels, n_fields, n_taps;
  uint32_t max_tokens, max_seqs, max_pages; /* T, S, P of the step buffer */
  /* The cache: numbers of a row and their type; bytes of a page in one layer, which are fewer than those rows in kv_elem
   * where the latent is stored as codes. */
  uint32_t kv_layers, kv_page_tokens, kv_row_elems, kv_elem, kv_page_bytes;
  uint64_t pool_bytes[DSV3_POOL_COUNT]; /* KV: 0, the runtime decides the page count */
  const dsv3_program_desc *programs;
  const dsv3_kernel_desc *kernels;
  const dsv3_field_desc *fields;
  const dsv3_tap_desc *taps;
} dsv3_module_desc;

/* The only export of the shared object. */
typedef const dsv3_module_desc *(*dsv3_module_fn)(void);

#ifdef __cplusplus
}
#endif
#endif
