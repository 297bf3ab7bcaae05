package clock

// With returns options with c for a clock, unless they have one already. Options are client.Options, which have no
// field for it that others could see: only tests measure time by another clock than the machine's.
func With[Options any](options Options, c *Clock) Options {
	SetIn(&options, c)
	return options
}

// SetIn is With for a *client.Options. Package client, whose field it sets, provides it.
var SetIn func(options any, c *Clock)
