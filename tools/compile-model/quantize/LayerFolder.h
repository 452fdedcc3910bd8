// One decoder layer as a checkpoint of its own.
#pragma once

#include "frontends/huggingface/Model.h"
#include "frontends/quantize/Matrix.h"

#include <string>

namespace dsv3 {

/// Writes a checkpoint folder whose model is decoder layer `layer` of `model` alone (an MTP module's layer too): its "vocabulary" is
/// `rows` [R, D], so running ids r is running the layer on rows[r]. Weights are copied as they are stored, under
/// the names of layer 0. So a model is calibrated one layer at a time, by the ordinary compiler and engine, with one layer in memory.
Status writeLayerFolder(const hf::Model &model, int64_t layer, const quantize::Matrix &rows, const std::string &folder);

} // namespace dsv3
