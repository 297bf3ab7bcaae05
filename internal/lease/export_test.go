package lease

// Kept returns how many requests a history keeps.
func Kept(h *History) int { return len(h.proofs) }
