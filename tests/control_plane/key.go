package main

import (
	"github.com/spf13/cobra"
	"k8s.io/client-go/util/keyutil"
)

// newKeyCommand writes a fresh private key, PEM, to the file it is given.
func newKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use:          "key FILE",
		Short:        "make a private key",
		Args:         cobra.ExactArgs(1),
		SilenceUsage: true,
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := keyutil.MakeEllipticPrivateKeyPEM()
			if err != nil {
				return err
			}
			return keyutil.WriteKey(args[0], key)
		},
	}
}
