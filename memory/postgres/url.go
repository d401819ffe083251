package postgres

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/spool-agents/spool/agent"
)

const (
	connectTimeout = 5 * time.Second
	// stalled ends a transaction whose client does nothing, such as a process
	// that was paused: its locks must not stop everybody else.
	stalled            = 10 * time.Second
	defaultLockTimeout = 30 * time.Second
)

// place is where a store is and how to connect to it.
type place struct {
	name           string // for messages: never with a password
	config         *pgx.ConnConfig
	maxConnections int
}

const urlForm = "use postgres://USER:PASSWORD@HOST:PORT/DATABASE (special characters in a password as %XX)"

// parse reads a store's URL. Its errors never show the password: neither
// net/url's nor pgx's messages are passed on as they are.
func parse(text string, o Options) (place, error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return place{}, agent.Errorf(agent.CodeInvalid, "postgres store: this is not a PostgreSQL URL: %s", urlForm)
	}
	p := place{maxConnections: o.MaxConnections}
	query := u.Query()
	if v := query.Get("pool_max_conns"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 2 {
			return place{}, agent.Errorf(agent.CodeInvalid, "postgres store: pool_max_conns=%q is not possible: use a number from 2", v)
		}
		query.Del("pool_max_conns")
		p.maxConnections = cmp.Or(p.maxConnections, n)
	}
	p.maxConnections = cmp.Or(p.maxConnections, DefaultMaxConnections)
	u.RawQuery = query.Encode()
	if p.config, err = pgx.ParseConfig(u.String()); err != nil {
		return place{}, agent.Errorf(agent.CodeInvalid, "postgres store: %s: %s", parseProblem(err, u), urlForm)
	}
	if p.config.ConnectTimeout == 0 || p.config.ConnectTimeout > connectTimeout {
		p.config.ConnectTimeout = connectTimeout
	}
	setDefaults(p.config.RuntimeParams, cmp.Or(o.LockTimeout, defaultLockTimeout))
	p.name = nameOf(p.config)
	return p, nil
}

// setDefaults sets what the URL leaves open.
func setDefaults(params map[string]string, lock time.Duration) {
	for key, value := range map[string]string{
		"application_name":                    "spool",
		"default_transaction_isolation":       "read committed",
		"idle_in_transaction_session_timeout": millis(stalled),
		"lock_timeout":                        millis(lock),
	} {
		if _, ok := params[key]; !ok {
			params[key] = value
		}
	}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// nameOf is the address as messages show it.
func nameOf(c *pgx.ConnConfig) string {
	u := url.URL{Scheme: "postgres", Host: c.Host + ":" + strconv.Itoa(int(c.Port)), Path: "/" + c.Database}
	if strings.HasPrefix(c.Host, "/") { // a socket's folder
		u.Host, u.RawQuery = "", "host="+c.Host
	}
	if c.User != "" {
		u.User = url.User(c.User)
	}
	return u.String()
}

// parseProblem is what pgx found wrong, without any secret. Its message repeats
// the URL in backquotes; only what follows is kept.
func parseProblem(err error, u *url.URL) string {
	text := err.Error()
	if i := strings.LastIndex(text, "`"); i >= 0 {
		text = strings.TrimPrefix(text[i+1:], ": ")
	}
	secrets := []string{u.Query().Get("password")}
	if secret, ok := u.User.Password(); ok {
		secrets = append(secrets, secret, url.QueryEscape(secret), url.PathEscape(secret))
	}
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "xxxxx")
		}
	}
	return text
}
