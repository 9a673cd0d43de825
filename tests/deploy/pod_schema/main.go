// Prints every field of a pod's spec in the Go types of k8s.io/api, one `Type.field` a line.
package main

import (
	"fmt"
	"reflect"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

func main() {
	fields := map[string]bool{}
	visit(reflect.TypeOf(corev1.PodSpec{}), map[reflect.Type]bool{}, fields)
	lines := make([]string, 0, len(fields))
	for one := range fields {
		lines = append(lines, one)
	}
	sort.Strings(lines)
	fmt.Println(strings.Join(lines, "\n"))
}

// visit adds the fields of a struct and of all structs that it contains. Structs with a text form of their own
// (quantities, times) have no exported fields with JSON names.
func visit(kind reflect.Type, seen map[reflect.Type]bool, fields map[string]bool) {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice || kind.Kind() == reflect.Map {
		kind = kind.Elem()
	}
	if kind.Kind() != reflect.Struct || seen[kind] {
		return
	}
	seen[kind] = true
	for index := range kind.NumField() {
		field := kind.Field(index)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() || name == "-" || (name == "" && !field.Anonymous) {
			continue
		}
		if name != "" {
			fields[kind.Name()+"."+name] = true
		}
		visit(field.Type, seen, fields)
	}
}
