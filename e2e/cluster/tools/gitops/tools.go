// What GitOps tools make of objects: Argo CD runs a health script in gopher-lua, Flux evaluates health check expressions with cel-go.
//
// Standard input:  {"lua": text, "inProgress": CEL, "failed": CEL, "current": CEL, "objects": [object, ...]}; no CEL where empty
// Standard output: [{"lua": {"status": ..., "message": ...}, "flux": "InProgress" | "Failed" | "Current" | "error: ..."}, ...]
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/google/cel-go/cel"
	lua "github.com/yuin/gopher-lua"
)

type question struct {
	Lua        string           `json:"lua"`
	InProgress string           `json:"inProgress"`
	Failed     string           `json:"failed"`
	Current    string           `json:"current"`
	Objects    []map[string]any `json:"objects"`
}

type health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

type answer struct {
	Lua  health `json:"lua"`
	Flux string `json:"flux"`
}

func main() {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		fail(err)
	}
	answers := []answer{}
	for _, object := range asked.Objects {
		script, err := argo(asked.Lua, object)
		if err != nil {
			fail(err)
		}
		answers = append(answers, answer{script, flux(asked, object)})
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		fail(err)
	}
}

// As Argo CD runs a script unless useOpenLibs is set: the base and table libraries, one second, the object as global `obj`.
func argo(script string, object map[string]any) (health, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return health{}, err
		}
	}
	limit, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	state.SetContext(limit)
	state.SetGlobal("obj", value(state, object))
	if err := state.DoString(script); err != nil {
		return health{}, err
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return health{}, fmt.Errorf("the script returns a %s, not a table", state.Get(-1).Type())
	}
	return health{lua.LVAsString(table.RawGetString("status")), lua.LVAsString(table.RawGetString("message"))}, nil
}

func value(state *lua.LState, given any) lua.LValue {
	switch typed := given.(type) {
	case bool:
		return lua.LBool(typed)
	case float64:
		return lua.LNumber(typed)
	case string:
		return lua.LString(typed)
	case []any:
		list := state.CreateTable(len(typed), 0)
		for _, item := range typed {
			list.Append(value(state, item))
		}
		return list
	case map[string]any:
		table := state.CreateTable(0, len(typed))
		for key, item := range typed {
			table.RawSetString(key, value(state, item))
		}
		return table
	}
	return lua.LNil
}

// As Flux (RFC 0009): another generation is in progress, then the expressions in this order; the first that is true decides.
func flux(asked question, object map[string]any) string {
	status, _ := object["status"].(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	if observed, ok := status["observedGeneration"]; ok && observed != metadata["generation"] {
		return "InProgress"
	}
	for _, one := range []struct{ expression, outcome string }{
		{asked.InProgress, "InProgress"}, {asked.Failed, "Failed"}, {asked.Current, "Current"},
	} {
		if one.expression == "" {
			continue
		}
		holds, err := evaluate(one.expression, object)
		if err != nil {
			return "error: " + err.Error()
		}
		if holds {
			return one.outcome
		}
	}
	return "InProgress"
}

func evaluate(expression string, object map[string]any) (bool, error) {
	environment, err := cel.NewEnv()
	if err != nil {
		return false, err
	}
	parsed, issues := environment.Parse(expression)
	if issues.Err() != nil {
		return false, issues.Err()
	}
	program, err := environment.Program(parsed)
	if err != nil {
		return false, err
	}
	found, _, err := program.Eval(object)
	if err != nil {
		return false, err
	}
	holds, ok := found.Value().(bool)
	if !ok {
		return false, fmt.Errorf("%q is no condition", expression)
	}
	return holds, nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
