package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"

	"weir/agent/task"
	"weir/model"
)

// Calls returns what the proxy makes its calls with.
func (p *Proxy) Calls() http.RoundTripper { return p.calls }

// SetTasks lets clients leave tasks at a desk; without one they are refused.
func (p *Proxy) SetTasks(d *task.Desk) { p.tasks.Store(d) }

// serveTasks adds the paths of tasks.
func (p *Proxy) serveTasks() {
	for pattern, do := range map[string]func(d *task.Desk, w http.ResponseWriter, r *http.Request, owner string){
		"POST /weir/tasks":             (*task.Desk).Post,
		"GET /weir/tasks/{id}":         (*task.Desk).Get,
		"GET /weir/tasks/{id}/results": (*task.Desk).Results,
		"POST /weir/tasks/{id}/repeat": (*task.Desk).Repeat,
		"POST /weir/tasks/{id}/cancel": (*task.Desk).Cancel,
	} {
		admitted := p.guarded(func(w http.ResponseWriter, r *http.Request) {
			d := p.tasks.Load()
			if d == nil {
				_, _ = io.CopyN(io.Discard, r.Body, unread)
				write(w, r, fault(http.StatusNotImplemented, "tasks_off", "tasks are off; agent.tasks.enabled in weir.yaml switches them on"))
				return
			}
			do(d, w, r, p.owner(r))
		})
		p.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Weir-Priority") == "" {
				r.Header.Set("X-Weir-Priority", model.PriorityBatch.String()) // nobody waits for it
			}
			admitted(w, r)
		})
	}
}

// owner is whose tasks a request may see: those of its tenant, where its key
// or nobody says which; else those of its key alone, since such a client could
// name any tenant.
func (p *Proxy) owner(r *http.Request) string {
	tenant := task.OfTenant + r.Header.Get("X-Weir-Tenant")
	keys := p.keys.Load()
	if keys == nil {
		return tenant
	}
	secret, c, _ := keys.find(r.Header)
	if c.Tenant != "" {
		return tenant
	}
	sum := sha256.Sum256([]byte(secret))
	sum = sha256.Sum256(sum[:]) // its hash alone opens the door
	return "key " + hex.EncodeToString(sum[:])
}
