package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/config"
)

// authority signs certificates for loopback.
type authority struct {
	t    *testing.T
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	made int64
}

func newAuthority(t *testing.T, dir string) *authority {
	t.Helper()
	a := &authority{t: t, dir: dir}
	a.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) write(name, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// issue writes cert.pem and key.pem, and returns the serial number.
func (a *authority) issue() int64 {
	a.t.Helper()
	a.made++
	key := newKey(a.t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(100 + a.made), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write("cert.pem", "CERTIFICATE", der)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write("key.pem", "PRIVATE KEY", secret)
	return 100 + a.made
}

// client trusts the authority and nobody else.
func (a *authority) client() *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
}

// TestTLS runs a fleet whose every link is encrypted, renews its certificate,
// and tries it without.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := newAuthority(t, dir)
	first := ca.issue()
	httpAt, bus, sidecar := freeAddress(t), freeAddress(t), freeAddress(t)
	text := func(trust string) string {
		return fmt.Sprintf(`
nats: {listen: %q, tls: {cert_file: cert.pem, key_file: key.pem, ca_file: %q}}
controller: {listen: %q, tls: {cert_file: cert.pem, key_file: key.pem}}
agent: {listen: %q, tls: {cert_file: cert.pem, key_file: key.pem}}
channels: [{name: main, base_url: "http://127.0.0.1:1/v1"}]
routes: [{name: default, tiers: [[main]]}]
`, bus, trust, httpAt, sidecar)
	}
	if err := os.WriteFile(filepath.Join(dir, "weir.yaml"), []byte(text("ca.pem")), 0o600); err != nil {
		t.Fatal(err)
	}
	ctl := start(t, dir, "controller")
	ctl.said("controller runs")
	agent := start(t, dir, "agent", "--id", "a1")
	agent.said("connected to nats")
	agent.said("https://" + sidecar)

	serial := func(address, path string) int64 {
		t.Helper()
		resp, err := ca.client().Get("https://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, resp.Status)
		}
		return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	for address, path := range map[string]string{httpAt: "/healthz", sidecar: "/v1/models"} {
		if got := serial(address, path); got != first {
			t.Errorf("%s shows certificate %d", path, got)
		}
	}
	renewed := ca.issue()
	if got := serial(httpAt, "/healthz"); got != renewed {
		t.Errorf("after a renewal certificate %d is shown, want %d", got, renewed)
	}
	if resp, err := http.Get("http://" + httpAt + "/healthz"); err == nil {
		if resp.StatusCode == http.StatusOK {
			t.Error("it answers in plain text")
		}
		_ = resp.Body.Close()
	}

	other := t.TempDir()
	newAuthority(t, other)
	for _, name := range []string{"cert.pem", "key.pem"} {
		if err := os.WriteFile(filepath.Join(other, name), []byte(read1(t, filepath.Join(dir, name))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	distrusts := strings.Replace(text("ca.pem"), sidecar, freeAddress(t), 1)
	if err := os.WriteFile(filepath.Join(other, "weir.yaml"), []byte(distrusts), 0o600); err != nil {
		t.Fatal(err)
	}
	wary := start(t, other, "agent", "--id", "a2")
	wary.said("unknown authority")
}

// TestBrokenCertificate holds what is said of one that is not there or not
// whole, and that half of a renewal changes nothing.
func TestBrokenCertificate(t *testing.T) {
	dir := t.TempDir()
	at := config.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	if _, err := certificateOf(at); err == nil || !strings.Contains(err.Error(), "cert.pem") {
		t.Errorf("no file: %v", err)
	}
	newAuthority(t, dir).issue()
	c, err := certificateOf(at)
	if err != nil {
		t.Fatal(err)
	}
	held, err := c.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at.CertFile, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if now, err := c.GetCertificate(nil); err != nil || now != held {
		t.Errorf("half of a renewal: %v", err)
	}
	if none, err := certificateOf(config.TLS{}); none != nil || err != nil {
		t.Errorf("none: %v, %v", none, err)
	}
}
