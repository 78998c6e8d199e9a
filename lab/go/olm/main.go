// olm judges what the Operator Lifecycle Manager is given: `olm bundle DIR`, `olm catalog DIR`.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	"github.com/operator-framework/operator-registry/pkg/lib/config"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "olm bundle|catalog DIR")
		os.Exit(2)
	}
	found := 0
	say := func(kind string, what any) {
		found++
		fmt.Printf("%s: %v\n", kind, what)
	}
	switch directory := os.Args[2]; os.Args[1] {
	case "bundle":
		bundle, err := manifests.GetBundleFromDir(directory)
		if err != nil {
			say("error", err)
			break
		}
		validators := validation.DefaultBundleValidators.WithValidators(
			validation.ObjectValidator, validation.GoodPracticesValidator, validation.OperatorHubV2Validator,
		)
		for _, result := range validators.Validate(bundle.ObjectsToValidate()...) {
			for _, one := range result.Errors {
				say("error", one)
			}
			for _, one := range result.Warnings {
				say("warning", one)
			}
		}
	case "catalog":
		if err := config.Validate(context.Background(), os.DirFS(directory)); err != nil {
			say("error", err)
		}
	}
	if found > 0 {
		os.Exit(1)
	}
}
