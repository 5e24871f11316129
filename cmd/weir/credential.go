package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"weir/cmd/weir/config"
	"weir/controller/credential"
)

// credentialCommand is weir credential.
type credentialCommand struct {
	Add    addCredentialCommand    `cmd:"" help:"Make a credential and let its holder in."`
	Revoke revokeCredentialCommand `cmd:"" help:"Shut a holder out, also while it is connected."`
	List   listCredentialCommand   `cmd:"" help:"Show who may connect."`
}

// bookFlags say whose credentials a command changes.
type bookFlags struct {
	configFlag
	Store string `placeholder:"DIR" help:"Folder of the controller's state; ./weir-data if the file names none."`
}

// open opens the book of a controller on this machine.
func (c bookFlags) open() (*credential.Book, error) {
	f, err := c.want()
	if err != nil {
		return nil, err
	}
	if c.Store != "" {
		f.NATS.Credentials = filepath.Join(c.Store, "credentials")
	}
	if !f.NATS.Embedded {
		return nil, badInput(fmt.Errorf("%s: nats.url names a server of your own, which keeps its own users", c.path()))
	}
	book, err := credential.Open(f.NATS.Credentials)
	return book, badInput(err)
}

// addCredentialCommand is weir credential add.
type addCredentialCommand struct {
	bookFlags
	Name   string `arg:"" placeholder:"NAME" help:"The agent's name, or what you call the holder."`
	Role   string `default:"agent" enum:"agent,any-agent,worker,any-worker,operator" placeholder:"ROLE" help:"agent: that one agent; any-agent: agents of any name; worker, any-worker: the same where agent.tasks is on, which may read and change all tasks but with --tenant; operator: everything, for weir log. Default agent."`
	Tenant string `placeholder:"TENANT" help:"The only tenant whose tasks a worker reaches: one of agent.tasks.tenants."`
}

// Help is shown by --help.
func (*addCredentialCommand) Help() string {
	return `Run it where the controller runs. It writes the secret half into the folder of credentials, readable by its owner alone: move it to the holder's machine and name it there with nats.credential_file. The server knows only the public half. A running controller lets the holder in within two seconds.

Examples:

  weir credential add web-1
  weir credential add pods --role any-agent
  weir credential add batch-1 --role worker
  weir credential add content-1 --role worker --tenant content
  scp weir-data/credentials/web-1.nk web-1:/etc/weir/ && rm weir-data/credentials/web-1.nk`
}

// Run adds.
func (c *addCredentialCommand) Run(e *env) error {
	book, err := c.open()
	if err != nil {
		return err
	}
	file, err := book.Add(c.Name, credential.Role(c.Role), c.Tenant)
	if errors.Is(err, credential.ErrExists) {
		return badInput(fmt.Errorf("%w; revoke it first, or take another name", err))
	}
	if err != nil {
		return badInput(err)
	}
	fmt.Fprintln(e.stdout, file)
	return nil
}

// revokeCredentialCommand is weir credential revoke.
type revokeCredentialCommand struct {
	bookFlags
	Name string `arg:"" placeholder:"NAME" help:"Its name."`
}

// Help is shown by --help.
func (*revokeCredentialCommand) Help() string {
	return `Run it where the controller runs. A running controller ends the holder's connection within two seconds; its lease ends as any agent's does that is gone.

Examples:

  weir credential revoke web-1`
}

// Run revokes.
func (c *revokeCredentialCommand) Run(e *env) error {
	book, err := c.open()
	if err != nil {
		return err
	}
	if err := book.Revoke(c.Name); err != nil {
		return badInput(err)
	}
	fmt.Fprintf(e.stdout, "%s is revoked\n", c.Name)
	return nil
}

// listCredentialCommand is weir credential list.
type listCredentialCommand struct{ bookFlags }

// Help is shown by --help.
func (*listCredentialCommand) Help() string {
	return `Shows names, roles and public keys.

Examples:

  weir credential list`
}

// Run lists.
func (c *listCredentialCommand) Run(e *env) error {
	book, err := c.open()
	if err != nil {
		return err
	}
	list, err := book.List()
	if err != nil {
		return badInput(err)
	}
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tROLE\tTENANT\tPUBLIC KEY")
	for _, one := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", one.Name, one.Role, cmp.Or(one.Tenant, "-"), one.Key)
	}
	return w.Flush()
}

// initCommand is weir init.
type initCommand struct {
	Dir string `arg:"" optional:"" default:"." placeholder:"DIR" help:"Folder for weir.yaml; weir-data is made in it."`
}

// Help is shown by --help.
func (*initCommand) Help() string {
	return `Writes a weir.yaml to be filled in, unless there is one, and makes the fleet's credentials and the controller's token under weir-data, readable by their owner alone. What is there stays.

Examples:

  weir init
  weir init /etc/weir`
}

// Run writes what is missing.
func (c *initCommand) Run(e *env) error {
	path := filepath.Join(c.Dir, defaultConfig)
	made, err := create(path, config.Example())
	if err != nil {
		return badInput(err)
	}
	if made {
		fmt.Fprintf(e.stdout, "%s: fill in base_url, model and the limits you were told\n", path)
	} else {
		fmt.Fprintf(e.stdout, "%s: is there, and stays as it is\n", path)
	}
	f, err := configFlag{path}.want()
	if err != nil {
		return err
	}
	f.Controller.TokenFile = under(c.Dir, f.Controller.TokenFile)
	if _, err := controllerToken(&f.Controller, e.log); err != nil {
		return badInput(err)
	}
	if f.NATS.Embedded {
		f.NATS.Credentials = under(c.Dir, f.NATS.Credentials)
		if _, _, err := openBook(&f.NATS, e.log); err != nil {
			return badInput(err)
		}
		fmt.Fprintf(e.stdout, "%s: credentials; weir credential add NAME lets in other machines\n", f.NATS.Credentials)
	}
	fmt.Fprintf(e.stdout, "next: weir config check %s, then weir controller and weir agent in %s\n", path, c.Dir)
	return nil
}

// under returns a path of a file in dir as seen from here.
func under(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
