// What go.mod is for: s5cmd itself is built by its path.
package main

import _ "github.com/peak/s5cmd/v2/command"

func main() {}
