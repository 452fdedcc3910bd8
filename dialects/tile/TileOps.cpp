// Verifiers.
#include "dialects/tile/TileDialect.h"
using namespace mlir;
namespace dsv3::tile {
#define OK(OP) LogicalResult OP::verify() { return success(); }
OK(KernelOp) OK(RoleOp) OK(RasterOp) OK(ListOp) OK(GroupsOp) OK(ForeachOp) OK(LoopOp) OK(NoneOp) OK(ViewOp) OK(CopyOp) OK(LoadOp) OK(StoreOp) OK(ZeroOp)
OK(PutOp) OK(ReadOp) OK(WriteOp) OK(CountOp) OK(RingOp) OK(NextOp) OK(GateOp) OK(FillOp) OK(WaitOp) OK(PeekOp) OK(ReleaseOp) OK(SignalOp) OK(MeetOp)
OK(MmaOp) OK(AwaitOp) OK(ReduceOp) OK(BcastOp) OK(IotaOp) OK(SliceOp) OK(ExpandOp) OK(AnyOp)
#undef OK
} // namespace dsv3::tile
