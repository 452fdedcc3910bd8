// Analyses of kernels in the tile dialect: bank conflicts, layouts, the barrier protocol.
#ifndef DSV3_TILE_ANALYSIS
#define DSV3_TILE_ANALYSIS

include "mlir/Pass/PassBase.td"

def TileAnalyzeConflictsPass : Pass<"dsv3-tile-analyze-conflicts"> {
  let summary = "Stamp every shared memory access with its instruction and bank conflict degree";
  let description = [{
    In: tile.kernel ops whose buffers have layouts. Out: the same; `load`, `store`, `zero` and `write via` carry
    `tile.access` (the instruction, e.g. "stmatrix.x4") and `tile.degree` (i32; 1 = no conflict): the worst phase of the
    worst instruction. `mma`, `copy` and `put` carry `tile.degree = 1`: their hardware reads canonical layouts without
    conflicts, and refuses others. A remark names each access whose degree is not 1. The kernel carries `tile.accesses`,
    a list of {op, instruction, count, degree, lost} with equal ones counted together, which reaches the report.

    A buffer's place does not change degrees: views start on whole patterns of their layout (T9).

    Refused: `auto` layouts; T26, an operand of mma that is no wgmma layout, with the first element that lies elsewhere;
    T17, a box whose layout is not its buffer's.
  }];
}

def TileChooseLayoutsPass : Pass<"dsv3-tile-choose-layouts"> {
  let summary = "Replace `auto` layouts by the cheapest legal ones";
  let description = [{
    In: tile.kernel ops, inlined. For each `alloc` or ring buffer with layout `auto`, the candidates linear, pad<4..64>,
    sw32/64/128, swizzle<5,2,5>, <4,3,4> and <1,4,3> are tried on all its accesses (through views too). Legal: the layout fits the
    shape; views of it can be written with a layout of their own (T10); mma operands are wgmma layouts (T26); copies and puts
    need the tensor map's layout (T17); rows of a `write via` and of `zero` are whole 16-byte words. Cost: cycles lost to
    conflicts, each access weighted by the trips of its loops (8 where unknown), then bytes, then the order above.

    Out: no `auto` is left. A remark per buffer: degree and cycles of linear, and of what was chosen. A warning where the
    degree is not 1, with the access and what forbade the layouts that would have 1.

    Refused: a buffer without any legal layout, with the last reason; calls that take buffers; buffers in `iter` lists.
  }];
}

def TileCheckProtocolPass : Pass<"dsv3-tile-check-protocol"> {
  let summary = "Run kernels on the host in many schedules and report what their barriers allow";
  let description = [{
    In: tile.kernel ops, before or after peeling and inlining. Changes nothing. Each kernel runs on synthetic arguments
    `seeds` times (every other schedule starves somebody). Errors, with the locations of both parties and the last events:
    C1 deadlock; C2 a wait passed by another turn of the ring; C3 arrivals or bytes over or under; C4 read before landed, or
    overwritten while read; C5 a slot released twice, never, or under an mma in flight; C6 a peek that nothing orders; C7 stores read
    by an engine without a sync of the warps; C8 gates that do not match.

    Numbers for the arguments: `args` gives the scalars of each kernel in order, `scalars` the step's (DSV3_SCALAR_*);
    tensors get the sizes in `dims`, for each `?` in order. Elements are 0 but for integer tensors, which come from `ints` in turn (lists of
    work must make sense).
  }];
  let options = [
    Option<"seeds", "seeds", "unsigned", "8", "Schedules to try">,
    Option<"ctas", "ctas", "unsigned", "1", "Blocks of the grid">,
    ListOption<"args", "args", "double", "Numbers for scalar arguments, in order">,
    ListOption<"scalars", "scalars", "int64_t", "The step's scalars">,
    ListOption<"dims", "dims", "int64_t", "Sizes for the `?` of tensor arguments, in order">,
    ListOption<"ints", "ints", "int64_t", "Elements of integer tensors, argument after argument; 0 when used up">,
  ];
}

#endif
