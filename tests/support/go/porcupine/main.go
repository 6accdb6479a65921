// Judges a history of a bank: is there one order of its operations, within the times in which each was under way, in
// which a serial bank gives all of their answers? The search is porcupine's; here is only what a bank does.
//
//	porcupine [-within 60s] <history.json
//
// Standard output has {"verdict": "Ok"}; or "Illegal", with how many operations the longest order has and the first
// that is not in it; or "Unknown", if it was not found out within that time.
package main

import (
	"cmp"
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

// A bank: balances, which operations were done, and how many of each session. Never changed once it is made.
type bank struct {
	balances []int64
	done     []bool
	counts   []int64
}

// A history, with places of accounts and sessions in a bank.
type bankHistory struct {
	operations         []operation
	reads              []int
	byReturn           []int
	accounts, sessions map[string]int
}

func historyOf(operations []operation) *bankHistory {
	h := &bankHistory{operations: operations, accounts: map[string]int{}, sessions: map[string]int{}}
	for place, each := range operations {
		if each.Puts != nil {
			add(h.accounts, each.Puts.Key)
		}
		if each.Moves != nil {
			add(h.accounts, each.Moves.Source)
			add(h.accounts, each.Moves.Target)
		}
		for key := range each.Reads {
			add(h.accounts, key)
		}
		add(h.sessions, each.Session)
		if each.onlyReads() {
			h.reads = append(h.reads, place)
		}
		h.byReturn = append(h.byReturn, place)
	}
	slices.SortFunc(h.byReturn, func(a, b int) int { return cmp.Compare(operations[a].back(), operations[b].back()) })
	return h
}

func add(places map[string]int, name string) {
	if _, found := places[name]; !found {
		places[name] = len(places)
	}
}

func (o operation) onlyReads() bool { return o.Puts == nil && o.Moves == nil }

func (o operation) back() int64 {
	if o.Return == nil {
		return math.MaxInt64
	}
	return *o.Return
}

// Has all been done that it needs, and is what it reads there?
func (h *bankHistory) fits(now bank, next operation) bool {
	for session, count := range next.Needs {
		place, found := h.sessions[session]
		if found && now.counts[place] < int64(count) {
			return false
		}
	}
	for key, seen := range next.Reads {
		if now.balances[h.accounts[key]] != seen {
			return false
		}
	}
	return true
}

// The first operation that only reads, could be the next, and is not done. Nothing else need be tried: it changes
// nothing, so an order that has it later is as good with it here. This only takes orders away, so it can make a right
// history wrong, and no wrong one right.
func (h *bankHistory) firstRead(now bank) int {
	until := int64(math.MaxInt64)
	for _, place := range h.byReturn {
		if !now.done[place] {
			until = h.operations[place].back()
			break
		}
	}
	for _, place := range h.reads {
		if each := h.operations[place]; !now.done[place] && each.Call <= until && h.fits(now, each) {
			return place
		}
	}
	return -1
}

// What a bank is behind an operation, if it may be the next.
func (h *bankHistory) step(before bank, place int) (bool, bank) {
	next := h.operations[place]
	if first := h.firstRead(before); (first != -1 && first != place) || !h.fits(before, next) {
		return false, before
	}
	after := bank{before.balances, slices.Clone(before.done), slices.Clone(before.counts)}
	after.done[place] = true
	after.counts[h.sessions[next.Session]]++
	if next.onlyReads() {
		return true, after
	}
	after.balances = slices.Clone(before.balances)
	if next.Puts != nil {
		after.balances[h.accounts[next.Puts.Key]] = next.Puts.Value
		return true, after
	}
	source, target := h.accounts[next.Moves.Source], h.accounts[next.Moves.Target]
	after.balances[source] -= next.Moves.Amount
	after.balances[target] += next.Moves.Amount
	outcome, left := "committed", after.balances[source]
	if left < 0 {
		outcome, after.balances = "refused", before.balances
	}
	fits := next.Outcome == "" || outcome == next.Outcome && (outcome == "refused" || left == next.Left)
	return fits, after
}

func (h *bankHistory) model() porcupine.Model {
	seed := maphash.MakeSeed()
	return porcupine.Model{
		Init: func() any {
			return bank{
				make([]int64, len(h.accounts)), make([]bool, len(h.operations)), make([]int64, len(h.sessions)),
			}
		},
		Step: func(state, input, _ any) (bool, any) {
			return h.step(state.(bank), input.(int))
		},
		// what was done is porcupine's to compare
		Equal: func(one, other any) bool {
			return slices.Equal(one.(bank).balances, other.(bank).balances)
		},
		Hash: func(state any) uint64 {
			var hash maphash.Hash
			hash.SetSeed(seed)
			for _, number := range state.(bank).balances {
				maphash.WriteComparable(&hash, number)
			}
			return hash.Sum64()
		},
	}
}

func judged(given history, within time.Duration) map[string]any {
	model := historyOf(given.Operations).model()
	var operations []porcupine.Operation
	for place, each := range given.Operations {
		operations = append(operations, porcupine.Operation{Input: place, Call: each.Call, Return: each.back()})
	}
	result := porcupine.CheckOperationsTimeout(model, operations, within)
	told := map[string]any{"verdict": result}
	if result == porcupine.Illegal {
		// once more, and slower: what could be put into an order
		_, info := porcupine.CheckOperationsVerbose(model, operations, within)
		told["ordered"], told["stuck"] = longest(info, given.Operations)
	}
	return told
}

// The length of the longest order, and the first operation that came back without being in it.
func longest(info porcupine.LinearizationInfo, operations []operation) (int, *operation) {
	var best []int
	for _, partition := range info.PartialLinearizations() {
		for _, each := range partition {
			if len(each) > len(best) {
				best = each
			}
		}
	}
	var stuck *operation
	for place, each := range operations {
		if !slices.Contains(best, place) && (stuck == nil || each.back() < stuck.back()) {
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
