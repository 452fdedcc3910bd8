"""Tests of dialects, passes and code generation: IR in, IR or a diagnostic out."""

import os
import shutil

import lit.formats

config.name = "dsv3"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["Inputs", "e2e", "data", "goldens"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.dsv3_test_dir

# The project's tools first, then FileCheck, not and split-file.
config.environment["PATH"] = os.pathsep.join(
    [config.dsv3_tools_dir, config.llvm_tools_dir, os.environ.get("PATH", "")]
)
config.environment["LC_ALL"] = "C.UTF-8"
config.substitutions.append(("%inputs", os.path.join(config.test_source_root, "passes", "Inputs")))
config.substitutions.append(("%source", os.path.dirname(config.test_source_root)))

# Assembling device code needs NVIDIA's assembler; where there is none, tests stop at PTX.
ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
if os.path.exists(ptxas):
    config.available_features.add("ptxas")
