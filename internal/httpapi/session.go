package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
)

// sessionLife is how long a browser stays logged in.
const sessionLife = 30 * 24 * time.Hour

// cookieName differs by port: browsers share cookies between the ports of a host.
func cookieName(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		return "spool_session_" + port
	}
	return "spool_session"
}

// newSession is the value of a session's cookie: user, token's id and begin, signed.
// The server does not keep it, so that any server with the same key knows it.
func (u *Users) newSession(c credential) string {
	begin := time.Now()
	if end := u.endOf(c); !begin.After(end) {
		begin = end.Add(time.Nanosecond)
	}
	body := base64.RawURLEncoding.EncodeToString([]byte(c.user)) + "." + c.id + "." + strconv.FormatInt(begin.UnixNano(), 10)
	return body + "." + u.sign(body)
}

func (u *Users) sign(body string) string {
	h := hmac.New(sha256.New, u.key)
	h.Write([]byte("spool session 2\x00" + body))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// bySession finds the user of a cookie. A session ends with its token, and when its user
// logs out of one that began with the same token.
func (u *Users) bySession(value string, now time.Time) (credential, bool) {
	parts := strings.Split(value, ".")
	if len(parts) != 4 || !hmac.Equal([]byte(parts[3]), []byte(u.sign(strings.Join(parts[:3], ".")))) {
		return credential{}, false
	}
	user, err := base64.RawURLEncoding.DecodeString(parts[0])
	at, err2 := strconv.ParseInt(parts[2], 10, 64)
	begin, c := time.Unix(0, at), credential{string(user), parts[1]}
	if err != nil || err2 != nil || now.Sub(begin) >= sessionLife || !begin.After(u.endOf(c)) {
		return credential{}, false
	}
	return c, u.holds(c)
}

// endSessions ends the sessions that have begun with a token, on all servers with the
// same key: a file of that name is as old as the last logout.
func (u *Users) endSessions(c credential) error {
	now, name := time.Now(), shortHash(c.user, c.id)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ends[name] = now
	if u.ended == "" {
		return nil
	}
	path := filepath.Join(u.ended, name)
	err := os.MkdirAll(u.ended, 0o700)
	if err == nil {
		err = os.WriteFile(path, nil, 0o600)
	}
	if err == nil {
		err = os.Chtimes(path, now, now)
	}
	return agent.Wrap(err, agent.CodeUnavailable, "the logout cannot be kept for other servers and after a restart")
}

// endOf is when sessions that begin with a token were ended last.
func (u *Users) endOf(c credential) time.Time {
	name := shortHash(c.user, c.id)
	u.mu.Lock()
	defer u.mu.Unlock()
	end := u.ends[name]
	if info, err := os.Stat(filepath.Join(u.ended, name)); u.ended != "" && err == nil && info.ModTime().After(end) {
		end = info.ModTime()
	}
	return end
}

var errNobody = &httpError{http.StatusUnauthorized, "unauthorized", "say who you are: send a token as Authorization: Bearer TOKEN, or log in"}

// identify finds the user of a request: of its token, else of its session.
func (s *Server) identify(r *http.Request) (credential, error) {
	if err := s.o.Users.refresh(); err != nil {
		s.o.Log.Warn("the tokens stay as they were", "error", err)
	}
	if h := r.Header.Get("Authorization"); h != "" {
		kind, token, _ := strings.Cut(h, " ")
		if !strings.EqualFold(kind, "Bearer") {
			return credential{}, errNobody
		}
		return s.tokenOf(r, strings.TrimSpace(token))
	}
	if c, ok := s.sessionOf(r); ok {
		return c, nil
	}
	return credential{}, errNobody
}

func (s *Server) sessionOf(r *http.Request) (credential, bool) {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return credential{}, false
	}
	return s.o.Users.bySession(cookie.Value, time.Now())
}

// tokenOf finds the user of a token, and bounds guessing.
func (s *Server) tokenOf(r *http.Request, token string) (credential, error) {
	if c, ok := s.o.Users.byToken(token); ok {
		return c, nil
	}
	if err := s.limits.guess(r); err != nil {
		return credential{}, err
	}
	return credential{}, &httpError{http.StatusUnauthorized, "unauthorized", "this token is not known here"}
}

func (s *Server) login(c *call) (any, error) {
	var b struct {
		Token string `json:"token"`
	}
	c.body(&b)
	if err := s.o.Users.refresh(); err != nil {
		s.o.Log.Warn("the tokens stay as they were", "error", err)
	}
	who, err := s.tokenOf(c.r, b.Token)
	if err != nil {
		return nil, err
	}
	s.begin(c.w, c.r, who)
	c.user = who.user
	return s.me(c)
}

func (s *Server) begin(w http.ResponseWriter, r *http.Request, c credential) {
	http.SetCookie(w, sessionCookie(r, s.o.Users.newSession(c), int(sessionLife.Seconds())))
}

func sessionCookie(r *http.Request, value string, age int) *http.Cookie {
	secure := r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	return &http.Cookie{Name: cookieName(r), Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode}
}

// logout ends the session of this browser, and all that began with the same token.
func (s *Server) logout(c *call) (any, error) {
	if who, ok := s.sessionOf(c.r); ok {
		if err := s.o.Users.endSessions(who); err != nil {
			return nil, err
		}
	}
	http.SetCookie(c.w, sessionCookie(c.r, "", -1))
	return map[string]any{}, nil
}

// elsewhere reports whether a page of another site leads to a request.
func elsewhere(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site != "none" && site != "same-origin"
	}
	for _, name := range []string{"Origin", "Referer"} {
		if from := r.Header.Get(name); from != "" {
			u, err := url.Parse(from)
			return err != nil || u.Host != r.Host
		}
	}
	return false
}

// enter begins a session with the token of a link, and takes it out of sight. A link on
// a page of another site begins none: it could be somebody else's, to whom the person
// would then write.
func (s *Server) enter(w http.ResponseWriter, r *http.Request) {
	if elsewhere(r) {
		http.Redirect(w, r, "/?login=elsewhere", http.StatusSeeOther)
		return
	}
	who, err := s.tokenOf(r, r.URL.Query().Get("token"))
	if err != nil {
		if agent.CodeOf(err) == agent.CodeLimit {
			s.fail(w, r, err)
			return
		}
		http.Redirect(w, r, "/?login=failed", http.StatusSeeOther)
		return
	}
	// Nor does a link that a page of ours shows make another user of the one who reads it.
	if now, ok := s.sessionOf(r); ok && now.user != who.user && r.Header.Get("Sec-Fetch-Site") == "same-origin" {
		http.Redirect(w, r, "/?login=elsewhere", http.StatusSeeOther)
		return
	}
	s.begin(w, r, who)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
