// Judges a history of a bank: is there one order of its operations, within the times in which each was under way, in
// which a serial bank gives all of their answers? The search is porcupine's; here is only what a bank does.
//
//	porcupine [-within 60s] <history.json
//
// Standard output has {"verdict": "Ok"}; or "Illegal", with how many operations the longest order has and the first
// that is not in it; or "Unknown", if it was not found out within that time.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"hash/maphash"
	"math"
	"os"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

type history struct {
	Operations []operation `json:"operations"`
}

// An operation of somebody. Its fields are those of support/histories/history.py.
type operation struct {
	Number  int              `json:"number"`
	Call    int64            `json:"call"`
	Return  *int64           `json:"return"`
	Puts    *put             `json:"puts"`
	Moves   *transfer        `json:"moves"`
	Outcome string           `json:"outcome"`
	Left    int64            `json:"left"`
	Reads   map[string]int64 `json:"reads"`
	Session string           `json:"session"`
	Needs   map[string]int   `json:"needs"`
}

type put struct {
	Key   string `json:"key"`
	Value int64  `json:"value"`
}

type transfer struct {
	Source string `json:"source"`
	Target string `json:"target"`
	Amount int64  `json:"amount"`
}

// A bank: balances, and how many operations of each session were done. Never changed once it is made.
type bank struct {
	balances []int64
	done     []int64
}

// Places of accounts and sessions in a bank.
type places struct {
	accounts, sessions map[string]int
}

func (p places) of(operations []operation) places {
	for _, each := range operations {
		if each.Puts != nil {
			add(p.accounts, each.Puts.Key)
		}
		if each.Moves != nil {
			add(p.accounts, each.Moves.Source)
			add(p.accounts, each.Moves.Target)
		}
		for key := range each.Reads {
			add(p.accounts, key)
		}
		add(p.sessions, each.Session)
	}
	return p
}

func add(places map[string]int, name string) {
	if _, found := places[name]; !found {
		places[name] = len(places)
	}
}

// What a bank is behind an operation, if it may be the next.
func (p places) step(before bank, next operation) (bool, bank) {
	for session, count := range next.Needs {
		place, found := p.sessions[session]
		if found && before.done[place] < int64(count) {
			return false, before
		}
	}
	for key, seen := range next.Reads {
		if before.balances[p.accounts[key]] != seen {
			return false, before
		}
	}
	after := bank{before.balances, slices.Clone(before.done)}
	after.done[p.sessions[next.Session]]++
	if next.Puts != nil {
		after.balances = slices.Clone(before.balances)
		after.balances[p.accounts[next.Puts.Key]] = next.Puts.Value
	}
	if next.Moves == nil {
		return true, after
	}
	source, target := p.accounts[next.Moves.Source], p.accounts[next.Moves.Target]
	moved := slices.Clone(after.balances)
	moved[source] -= next.Moves.Amount
	moved[target] += next.Moves.Amount
	outcome := "committed"
	if moved[source] < 0 {
		outcome = "refused"
	} else {
		after.balances = moved
	}
	if next.Outcome == "" {
		return true, after
	}
	fits := outcome == next.Outcome && (outcome == "refused" || next.Left == moved[source])
	return fits, after
}

func (p places) model() porcupine.Model {
	seed := maphash.MakeSeed()
	return porcupine.Model{
		Init: func() any {
			return bank{make([]int64, len(p.accounts)), make([]int64, len(p.sessions))}
		},
		Step: func(state, input, _ any) (bool, any) {
			return p.step(state.(bank), input.(operation))
		},
		Equal: func(one, other any) bool {
			a, b := one.(bank), other.(bank)
			return slices.Equal(a.balances, b.balances) && slices.Equal(a.done, b.done)
		},
		Hash: func(state any) uint64 {
			var hash maphash.Hash
			hash.SetSeed(seed)
			for _, numbers := range [][]int64{state.(bank).balances, state.(bank).done} {
				for _, number := range numbers {
					maphash.WriteComparable(&hash, number)
				}
			}
			return hash.Sum64()
		},
	}
}

func judged(given history, within time.Duration) map[string]any {
	all := places{map[string]int{}, map[string]int{}}.of(given.Operations)
	var operations []porcupine.Operation
	for _, each := range given.Operations {
		back := int64(math.MaxInt64)
		if each.Return != nil {
			back = *each.Return
		}
		operations = append(operations, porcupine.Operation{Input: each, Call: each.Call, Return: back})
	}
	result := porcupine.CheckOperationsTimeout(all.model(), operations, within)
	told := map[string]any{"verdict": result}
	if result == porcupine.Illegal {
		// once more, and slower: what could be put into an order
		_, info := porcupine.CheckOperationsVerbose(all.model(), operations, within)
		told["ordered"], told["stuck"] = longest(info, given.Operations)
	}
	return told
}

// The length of the longest order, and the first operation that came back without being in it.
func longest(info porcupine.LinearizationInfo, operations []operation) (int, *operation) {
	var best []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, each := range partition {
			if len(each) > len(best) {
				best = each
			}
		}
	}
	in := map[int]bool{}
	for _, each := range best {
		in[each.Input.(operation).Number] = true
	}
	var stuck *operation
	for place, each := range operations {
		if !in[each.Number] && each.Return != nil && (stuck == nil || *each.Return < *stuck.Return) {
			stuck = &operations[place]
		}
	}
	return len(best), stuck
}

func main() {
	within := flag.Duration("within", time.Minute, "how long to search")
	flag.Parse()
	var given history
	decoder := json.NewDecoder(os.Stdin)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&given); err != nil {
		fmt.Fprintln(os.Stderr, "no history:", err)
		os.Exit(2)
	}
	if err := json.NewEncoder(os.Stdout).Encode(judged(given, *within)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
