#pragma once

#include "tessera/core/error.h"
#include "tessera/model/spec.h"
#include "tessera/ops/activation.h"

namespace tessera::model {

inline ops::Activation to_ops(Activation activation) {
  switch (activation) {
    case Activation::Silu:
      return ops::Activation::Silu;
    case Activation::GeluTanh:
      return ops::Activation::GeluTanh;
    case Activation::GeluErf:
      return ops::Activation::GeluErf;
    case Activation::Relu:
      return ops::Activation::Relu;
  }
  TESSERA_ASSERT(false, "no such activation");
}

}  // namespace tessera::model
