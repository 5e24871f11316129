// Package credential keeps who may connect to a fleet's own NATS server.
//
// A credential is a key pair of NATS (an nkey, Ed25519): the server knows the
// public half, and the holder proves that it has the secret one by signing what
// the server made up, so no secret is ever sent. A Book is a folder with mode
// 0700 that belongs to the controller:
//
//	allowed   who may connect: a line "NAME ROLE PUBLIC-KEY" each, and the tenant of
//	          a worker that is bound to one
//	NAME.nk   the secret half, mode 0600; to be moved to the machine that uses it
//
// Two processes may change a book at the same time. A change is whole or did
// not happen, also when the machine stops in the middle: allowed is written
// beside the old one and renamed.
package credential
