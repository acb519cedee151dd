package config

import (
	"reflect"
	"strings"
	"sync"
)

// Setting is one setting of [Config], by all its names.
type Setting struct {
	Name    string // redis.url
	Env     string // REJOIN_REDIS_URL
	Flag    string // redis-url
	Help    string
	Default string // as text
	Secret  bool   // hidden when printed; also taken from the file that Env+"_FILE" names

	typ   reflect.Type
	index []int // for reflect.Value.FieldByIndex
	tag   reflect.StructTag
}

// EnvPrefix begins the name of every environment variable of ours.
const EnvPrefix = "REJOIN_"

func envName(setting string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(setting, ".", "_"))
}

func flagName(setting string) string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(setting)
}

// Settings lists every setting in the order of the struct. Names are mapped by
// this list, never by splitting: limits.header_bytes and limits.header.bytes
// would both be REJOIN_LIMITS_HEADER_BYTES.
var Settings = sync.OnceValue(func() []Setting { return walk(reflect.ValueOf(Default()), "", nil) })

// listed are the settings of an element of each list, by the element's type.
var listed = sync.OnceValue(func() map[reflect.Type][]Setting {
	types := map[reflect.Type][]Setting{}
	for _, s := range Settings() {
		if s.typ.Kind() == reflect.Slice && s.typ.Elem().Kind() == reflect.Struct {
			types[s.typ] = walk(reflect.Zero(s.typ.Elem()), "", nil)
		}
	}
	return types
})

// elements are the settings of one element of the list that the setting is; nil
// if it is none.
func (s *Setting) elements() []Setting { return listed()[s.typ] }

func walk(v reflect.Value, prefix string, index []int) []Setting {
	var out []Setting
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		name := prefix + f.Tag.Get("koanf")
		at := append(append([]int(nil), index...), i)
		if f.Type.Kind() == reflect.Struct {
			out = append(out, walk(v.Field(i), name+".", at)...)
			continue
		}
		out = append(out, Setting{
			Name:    name,
			Env:     envName(name),
			Flag:    flagName(name),
			Help:    f.Tag.Get("help"),
			Default: format(v.Field(i).Interface()),
			Secret:  f.Tag.Get("secret") != "",
			typ:     f.Type,
			index:   at,
			tag:     f.Tag,
		})
	}
	return out
}

// find returns the setting of that name, nil if there is none.
func find(list []Setting, name string) *Setting {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// isSection reports whether settings stand under that name.
func isSection(list []Setting, name string) bool {
	for i := range list {
		if strings.HasPrefix(list[i].Name, name+".") {
			return true
		}
	}
	return false
}
