package main

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
)

const readyWithin = 60 * time.Second

// newEtcdCommand runs one etcd member in this process, until a signal ends it.
func newEtcdCommand() *cobra.Command {
	var dir, client, peer string
	command := &cobra.Command{
		Use:          "etcd",
		Short:        "one etcd member, on loopback, without durability",
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			return runEtcd(dir, client, peer)
		},
	}
	command.Flags().StringVar(&dir, "data-dir", "", "directory of the data")
	command.Flags().StringVar(&client, "client-url", "http://127.0.0.1:2379", "URL that clients use")
	command.Flags().StringVar(&peer, "peer-url", "http://127.0.0.1:2380", "URL that members would use")
	return command
}

func runEtcd(dir, client, peer string) error {
	config, err := etcdConfig(dir, client, peer)
	if err != nil {
		return err
	}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(readyWithin):
		return fmt.Errorf("etcd was not ready within %s", readyWithin)
	}
	select {
	case <-ended:
		return nil
	case err := <-server.Err():
		return err
	}
}

func etcdConfig(dir, client, peer string) (*embed.Config, error) {
	config := embed.NewConfig()
	config.Dir = dir
	config.LogLevel = "warn"
	config.UnsafeNoFsync = true
	clientURL, err := url.Parse(client)
	if err != nil {
		return nil, err
	}
	peerURL, err := url.Parse(peer)
	if err != nil {
		return nil, err
	}
	config.ListenClientUrls = []url.URL{*clientURL}
	config.AdvertiseClientUrls = []url.URL{*clientURL}
	config.ListenPeerUrls = []url.URL{*peerURL}
	config.AdvertisePeerUrls = []url.URL{*peerURL}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	return config, nil
}
