// Package actionlint keeps the linter of workflows among the requirements of this module.
package actionlint

import _ "github.com/rhysd/actionlint"
