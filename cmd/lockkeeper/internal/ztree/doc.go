// Package ztree has what the commands z, zkcli and shell do with trees of znodes: to walk, show, search, compare, copy,
// export and remove them. Its functions take a session and a writer. They know nothing of flags, of terminals or of
// exit statuses.
//
// A tree is read a piece at a time, so there is no moment at which all of it was as it is shown. A znode that vanishes
// while its tree is read is left out.
package ztree
