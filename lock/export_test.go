package lock

// HolderLimit is for tests.
const HolderLimit = overtime
