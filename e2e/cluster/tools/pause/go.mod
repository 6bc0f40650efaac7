module hyperscale.dev/e2e/tools/pause

go 1.24
