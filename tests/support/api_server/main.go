// Command apiserver is a Kubernetes API server and the etcd that it needs, for tests: `apiserver etcd|kube-apiserver FLAG...`.
// `apiserver key FILE` makes the key that it signs service accounts' tokens with.
package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Args = os.Args[1:]
	switch os.Args[0] {
	case "etcd":
		etcdmain.Main(os.Args)
	case "key":
		if err := key(os.Args[1]); err != nil {
			panic(err)
		}
	default:
		os.Exit(cli.Run(app.NewAPIServerCommand()))
	}
}

func key(file string) error {
	made, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(made)})
	return os.WriteFile(file, block, 0o600)
}
