#include "tessera/model/routing.h"

namespace tessera::model {

void RoutingRecord::clear() {
  for (LayerRouting& layer : layers) layer = {};
}

}  // namespace tessera::model
