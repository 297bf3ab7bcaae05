package lease

// Kept returns how many requests a history keeps.
func Kept[I Instant[I]](h *History[I]) int { return len(h.proofs) }
