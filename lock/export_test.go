package lock

// Overtime is for tests.
const Overtime = overtime
