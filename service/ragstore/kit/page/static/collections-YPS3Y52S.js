import{i as a}from"./chunk-UHEJZI6I.js";import"./chunk-BOXXSB3X.js";export{a as default};
