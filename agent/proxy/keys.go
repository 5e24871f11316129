package proxy

import (
	"crypto/sha256"
	"net/http"
	"strings"

	"weir/model"
)

// Client is what a key allows.
type Client struct {
	// Tenant is whom its calls count for. Empty leaves it to the client.
	Tenant string
	// Priority is the highest it may ask for.
	Priority model.Priority
}

// Keys are the clients by the SHA-256 of their keys.
type Keys map[[sha256.Size]byte]Client

// client finds whose key a request carries.
func (k Keys) client(h http.Header) (Client, bool) {
	_, c, ok := k.find(h)
	return c, ok
}

// find returns the key that a request carries, and whose it is.
func (k Keys) find(h http.Header) (secret string, c Client, ok bool) {
	for _, secret := range credentials(h) {
		if c, ok := k[sha256.Sum256([]byte(secret))]; ok && secret != "" {
			return secret, c, true
		}
	}
	return "", Client{}, false
}

// credentials are the places where the SDKs put a key.
func credentials(h http.Header) [3]string {
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		token = ""
	}
	return [3]string{strings.TrimSpace(token), h.Get("X-Api-Key"), h.Get("Api-Key")}
}
