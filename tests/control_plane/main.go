// Command control-plane is a Kubernetes control plane in one binary, for tests.
//
// Each sub-command is one of the programs a cluster is made of, unchanged, from its own Go module:
// etcd, kube-apiserver, kube-controller-manager, kube-scheduler; and key, which makes the key that
// service account tokens are signed with. The Python module plane.py beside this file starts and
// ends them as separate processes, on loopback.
//
// With ENDS_WITH_STDIN set, a program ends when its standard input does: whoever holds the other end
// of that pipe cannot leave it behind, however it dies.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var programs = map[string]func() *cobra.Command{
	"etcd":                    newEtcdCommand,
	"key":                     newKeyCommand,
	"kube-apiserver":          func() *cobra.Command { return apiserver.NewAPIServerCommand() },
	"kube-controller-manager": func() *cobra.Command { return controllers.NewControllerManagerCommand() },
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func main() {
	if len(os.Args) < 2 || programs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: control-plane etcd|key|kube-apiserver|kube-controller-manager|kube-scheduler [flags]")
		os.Exit(2)
	}
	if os.Getenv("ENDS_WITH_STDIN") != "" {
		go endWithStdin()
	}
	program := programs[os.Args[1]]
	os.Args = os.Args[1:]
	os.Exit(cli.Run(program()))
}

func endWithStdin() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}
