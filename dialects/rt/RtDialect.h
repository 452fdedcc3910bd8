// The rt dialect: the host program.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/target/TargetDialect.h"

#include "dialects/rt/RtDialect.h.inc"
#include "dialects/rt/RtEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/rt/RtAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/rt/RtTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/rt/RtOps.h.inc"
