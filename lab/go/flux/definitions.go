// Package flux keeps Flux's types among the requirements of this module: their definition is generated from them.
package flux

import _ "github.com/fluxcd/helm-controller/api/v2"
