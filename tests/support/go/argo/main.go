// What Argo CD says of each object on standard input, a line each: its settings as it reads them out of the ConfigMap argocd-cm, whose
// JSON is the first line, and the health that its application controller gives a resource by them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/argoproj/argo-cd/v2/util/lua"
	"github.com/argoproj/argo-cd/v2/util/settings"
	"github.com/argoproj/gitops-engine/pkg/health"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"
)

func try(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	lines.Scan()
	found := &corev1.ConfigMap{}
	try(json.Unmarshal(lines.Bytes(), found))
	found.ObjectMeta = metav1.ObjectMeta{Name: "argocd-cm", Namespace: "argocd", Labels: map[string]string{"app.kubernetes.io/part-of": "argocd"}}
	overrides, err := settings.NewSettingsManager(context.Background(), fake.NewSimpleClientset(found), "argocd").GetResourceOverrides()
	try(err)
	for lines.Scan() {
		thing := &unstructured.Unstructured{}
		try(thing.UnmarshalJSON(lines.Bytes()))
		said, err := health.GetResourceHealth(thing, lua.ResourceHealthOverrides(overrides))
		try(err)
		try(json.NewEncoder(os.Stdout).Encode(said))
	}
	try(lines.Err())
}
