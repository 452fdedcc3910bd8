// Devices as lists of capabilities.
#pragma once

#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"

#include "dialects/target/TargetDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/target/TargetAttrs.h.inc"
